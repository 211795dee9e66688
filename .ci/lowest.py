"""Print the lowest versions of what users install, from pyproject.toml, as constraints of pip."""

import re
import tomllib
from pathlib import Path

EXTRAS = ["onnx", "arrow", "dask", "progress"]

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
needed = [project["dependencies"][0]]
needed += [one for extra in EXTRAS for one in project["optional-dependencies"][extra]]
for name, version in (re.match(r"([\w-]+)>=([\d.]+)", one).groups() for one in needed):
    # 2.0.* is the last of its fixes: 2.0.2.
    print(f"{name}=={version}.*")
