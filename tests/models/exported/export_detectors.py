"""What comes after a detector's head, in torchvision's manner, scripted.

Run with PyTorch 2.13: `python export_detectors.py [NAME ...]`. torchvision's wheels need the same build of
PyTorch, so its `nms` is written out here, and exported as ONNX's NonMaxSuppression.
"""

import torch
import torch.nn.functional as F
from common import main, module
from torch import Tensor


@torch.library.custom_op("detectors::nms", mutates_args=())
def nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """The positions of boxes that no better one covers, the best first."""
    order = scores.argsort(descending=True, stable=True).tolist()
    kept: list[int] = []
    for k in order:
        if all(iou(boxes[k : k + 1], boxes[j : j + 1]).item() <= threshold for j in kept):
            kept.append(k)
    return torch.tensor(kept, dtype=torch.int64)


def iou(a: Tensor, b: Tensor) -> Tensor:
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    size = (high - low).clamp(min=0)
    both = size[..., 0] * size[..., 1]
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return both / (area_a[:, None] + area_b[None] - both + 1e-9)


def nms_as_onnx(g, boxes, scores, threshold):
    """As torchvision has it in `ops/_register_onnx_ops.py`."""
    boxes = g.op("Unsqueeze", boxes, g.op("Constant", value_t=torch.tensor([0])))
    scores = g.op("Unsqueeze", scores, g.op("Constant", value_t=torch.tensor([0, 1])))
    most = g.op("Constant", value_t=torch.tensor([2**31 - 1]))
    limit = g.op("Cast", threshold, to_i=1)
    found = g.op("NonMaxSuppression", boxes, scores, most, limit)
    picked = g.op("Gather", found, g.op("Constant", value_t=torch.tensor([2])), axis_i=1)
    return g.op("Squeeze", picked, g.op("Constant", value_t=torch.tensor([1])))


torch.onnx.register_custom_op_symbolic("detectors::nms", nms_as_onnx, 17)


@module
class ImageDetections(torch.nn.Module):
    """RoIHeads.postprocess_detections: boxes of all images in one tensor, and lists for each image."""

    def forward(self, boxes, scores, counts):
        kept_boxes: list[Tensor] = []
        kept_scores: list[Tensor] = []
        start = 0
        for i in range(counts.size(0)):
            stop = start + int(counts[i])
            box, score = boxes[start:stop], scores[start:stop]
            good = torch.nonzero(score > 0.2)[:, 0]
            box, score = box[good], score[good]
            keep = torch.ops.detectors.nms(box, score, 0.5)
            kept_boxes.append(box.index_select(0, keep))
            kept_scores.append(score.index_select(0, keep))
            start = stop
        return kept_boxes, kept_scores


@module
class ClassDetections(torch.nn.Module):
    """NMS for each class, then the best of all."""

    def forward(self, boxes, scores):
        found: list[Tensor] = []
        best: list[Tensor] = []
        labels: list[Tensor] = []
        for k in range(scores.size(1)):
            keep = torch.ops.detectors.nms(boxes, scores[:, k], 0.4)
            found.append(boxes[keep])
            best.append(scores[:, k][keep])
            labels.append(torch.zeros_like(keep) + k)
        joined = torch.cat(best)
        top = joined.argsort(descending=True)[:10]
        return torch.cat(found)[top], joined[top], torch.cat(labels)[top]


@module
class Proposals(torch.nn.Module):
    """RegionProposalNetwork.filter_proposals: the best boxes of each level, sizes in the code."""

    def forward(self, boxes, scores):
        best: list[Tensor] = []
        start = 0
        for level in scores.split([8, 4, 2], 1):
            top = level.topk(2, 1)[1] + start
            best.append(top)
            start += level.size(1)
        top = torch.cat(best, 1)
        out: list[Tensor] = []
        for i in range(boxes.size(0)):
            out.append(boxes[i][top[i]].clamp(0, 30))
        return out


@module
class LevelPooling(torch.nn.Module):
    """MultiScaleRoIAlign: each box is pooled from the level of the pyramid that fits its size."""

    def forward(self, boxes, levels: list[Tensor]):
        side = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).sqrt()
        pooled: list[Tensor] = []
        for i in range(boxes.size(0)):
            at = int((side[i] / 8).floor().clamp(0, 2).to(torch.int64))
            feature = levels[at]
            box = boxes[i] / 16 - 1
            steps = torch.linspace(0, 1, 4)
            xs = (box[0] + (box[2] - box[0]) * steps).unsqueeze(0).expand(4, 4)
            ys = (box[1] + (box[3] - box[1]) * steps).unsqueeze(1).expand(4, 4)
            grid = torch.stack([xs, ys], 2).unsqueeze(0)
            pooled.append(F.grid_sample(feature.unsqueeze(0), grid, align_corners=False)[0])
        return torch.stack(pooled)


@module
class PastedMasks(torch.nn.Module):
    """paste_masks_in_image: small masks, resized to their boxes, in images of one size."""

    def forward(self, masks, boxes):
        out: list[Tensor] = []
        for i in range(masks.size(0)):
            x0, y0 = int(boxes[i, 0]), int(boxes[i, 1])
            w, h = int(boxes[i, 2]) - x0, int(boxes[i, 3]) - y0
            mask = F.interpolate(masks[i][None, None], size=[h, w], mode="bilinear", align_corners=False)
            out.append(F.pad(mask[0, 0], [x0, 32 - x0 - w, y0, 32 - y0 - h]).float())
        return torch.stack(out)


@module
class Tracks(torch.nn.Module):
    """Boxes of one frame after the other: each goes on the track that is nearest, or begins one."""

    def forward(self, boxes, reach):
        tracks: list[Tensor] = []
        ids: list[Tensor] = []
        for i in range(boxes.size(0)):
            box = boxes[i]
            best = -1
            if len(tracks) > 0:
                now = torch.stack(tracks)
                far = (now - box).abs().sum(1)
                if bool(far.amin() < reach):
                    best = int(far.argmin())
            if best < 0:
                ids.append(torch.tensor(len(tracks)))
                tracks.append(box)
            else:
                ids.append(torch.tensor(best))
                tracks[best] = torch.stack([tracks[best], box]).mean(0)
        return torch.stack(tracks), torch.stack(ids)


@module
class ImageBatches(torch.nn.Module):
    """GeneralizedRCNNTransform.batch_images: a list of images, normalized and padded to one size."""

    def forward(self, images: list[Tensor]):
        height, width = 0, 0
        for image in images:
            height = max(height, image.size(1))
            width = max(width, image.size(2))
        out: list[Tensor] = []
        for image in images:
            scaled = (image - 0.45) / 0.22
            out.append(F.pad(scaled, [0, width - image.size(2), 0, height - image.size(1)]))
        return torch.stack(out)


if __name__ == "__main__":
    main()
