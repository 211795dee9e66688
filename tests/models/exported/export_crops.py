"""Crops of images, of all sizes, scripted.

Run with PyTorch 2.13: `python export_crops.py [NAME ...]`.
"""

import torch
import torch.nn.functional as F
from common import main, module
from torch import Tensor


@module
class ResizedCrops(torch.nn.Module):
    """Crops, resized to 6 by 6: what goes from a detector to a classifier."""

    def forward(self, image, boxes):
        out: list[Tensor] = []
        for i in range(boxes.size(0)):
            x0, y0, x1, y1 = int(boxes[i, 0]), int(boxes[i, 1]), int(boxes[i, 2]), int(boxes[i, 3])
            crop = image[:, y0:y1, x0:x1].unsqueeze(0)
            out.append(F.interpolate(crop, size=[6, 6], mode="bilinear", align_corners=False)[0])
        return torch.stack(out)


@module
class PaddedCrops(torch.nn.Module):
    """Crops, padded to the largest, and their sizes."""

    def forward(self, image, boxes):
        crops: list[Tensor] = []
        height, width = 1, 1
        for i in range(boxes.size(0)):
            crop = image[int(boxes[i, 1]) : int(boxes[i, 3]), int(boxes[i, 0]) : int(boxes[i, 2])]
            height = max(height, crop.size(0))
            width = max(width, crop.size(1))
            crops.append(crop)
        out: list[Tensor] = []
        for crop in crops:
            out.append(F.pad(crop, [0, width - crop.size(1), 0, height - crop.size(0)]))
        return torch.stack(out), height, width


@module
class LineStrips(torch.nn.Module):
    """Strips of a page, as text lines are cut: a list of images of one height; narrow ones are left out."""

    def forward(self, page, tops, lefts, rights):
        strips: list[Tensor] = []
        dropped = 0
        for i in range(tops.size(0)):
            left, right = int(lefts[i]), int(rights[i])
            if right - left < 3:
                dropped += 1
                continue
            top = int(tops[i])
            strips.append(page[:, top : top + 4, left:right] / 255.0)
        return strips, dropped


@module
class Tiles(torch.nn.Module):
    """Tiles of an image, row by row: two loops, one list."""

    def forward(self, image):
        tiles: list[Tensor] = []
        for y in range(0, image.size(1) - 3, 4):
            for x in range(0, image.size(2) - 3, 4):
                tile = image[:, y : y + 4, x : x + 4]
                tiles.append((tile - tile.mean()) / (tile.std() + 1e-3))
        return torch.stack(tiles), len(tiles)


@module
class Stitched(torch.nn.Module):
    """Tiles back to an image: a list of bands, each joined of a list of tiles."""

    def forward(self, tiles, columns):
        bands: list[Tensor] = []
        band: list[Tensor] = []
        for i in range(tiles.size(0)):
            band.append(tiles[i] * 0.5)
            if len(band) == int(columns):
                bands.append(torch.cat(band, 1))
                band = [tiles[i][:, :0]]
                band.pop()
        return torch.cat(bands)


if __name__ == "__main__":
    main()
