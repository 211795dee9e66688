"""Exports the model that README and the page on models run: a recurrence over a list, as PyTorch scripts it.

Run in this folder with PyTorch 2.13 and onnx 1.23: `python export.py`. The other models are in `exported`.
"""

import torch


class Recurrence(torch.nn.Module):
    def forward(self, x):
        out = [torch.zeros_like(x[0])]
        for i in range(x.size(0)):
            out.append(torch.tanh(x[i] + out[-1]))
        return torch.stack(out)


if __name__ == "__main__":
    rows = torch.arange(28, dtype=torch.float32).reshape(7, 4) / 10
    torch.onnx.export(
        torch.jit.script(Recurrence()),
        (rows,),
        "recurrence.onnx",
        dynamo=False,
        opset_version=17,
        input_names=["x"],
        dynamic_axes={"x": {0: "x_n"}},
    )
