"""The workflows run pinned code with few rights, and one list of Pythons is named everywhere."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

if not WORKFLOWS:
    pytest.skip("outside of the repository", allow_module_level=True)

named = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)


def read(*parts):
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def jobs_of(workflow):
    """Return the text of each job by its name."""
    parts = re.split(r"^  ([\w-]+):\n", read(workflow).partition("\njobs:\n")[2], flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def permissions_of(job):
    found = re.search(r"^    permissions:\n((?:      .+\n)+)", job, re.M)
    return dict(re.findall(r"([\w-]+): (\w+)", re.sub("#.*", "", found[1]))) if found else None


@named
def test_rights_are_given_to_jobs(workflow):
    assert "\npermissions: {}\n" in read(workflow)
    for name, job in jobs_of(workflow).items():
        if name != "publish":
            rights = {"issues": "write"} if name == "report" else {"contents": "read"}
            assert permissions_of(job) == rights, name


def test_a_night_that_fails_is_reported():
    jobs = jobs_of(ROOT / ".github" / "workflows" / "night.yml")
    needed = re.search(r"needs: \[(.+)\]", jobs["report"])[1].split(", ")
    assert sorted(needed) == sorted(jobs.keys() - {"report"})


def test_the_release_has_a_token_and_the_artifacts():
    job = jobs_of(ROOT / ".github" / "workflows" / "wheels.yml")["publish"]
    assert permissions_of(job) == {"id-token": "write"}
    used = re.findall(r"uses: *([\w/-]+)@", job)
    assert used == ["actions/download-artifact", "pypa/gh-action-pypi-publish"]
    assert "attestations: true" in job
    assert "secrets." not in job


def test_tools_are_pinned():
    for file in (ROOT / ".github" / "requirements").iterdir():
        for line in file.read_text(encoding="utf-8").splitlines():
            assert re.fullmatch(r"[\w-]+==[\d.]+", line), f"{file.name}: {line}"


def run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def program(name):
    """Return the path of an installed program, also if its environment isn't activated."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_actionlint_finds_nothing():
    """The package of actionlint downloads it when it is built, so it isn't in the extra `test`."""
    run(program("actionlint"), "-no-color")


def test_one_list_of_pythons():
    settings = tomllib.loads(read("pyproject.toml"))
    minors = [
        int(found[1])
        for line in settings["project"]["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", line))
    ]
    first, last = minors[0], minors[-1]
    assert minors == list(range(first, last + 1))
    assert settings["project"]["requires-python"] == f">=3.{first}"
    built = [one.removesuffix("-*") for one in settings["tool"]["cibuildwheel"]["build"]]
    assert [one for one in built if not one.endswith("t")] == [f"cp3{minor}" for minor in minors]
    threaded = [f"3.{one[3:]}" for one in built if one.endswith("t")]
    tests = read(".github", "workflows", "test.yml")
    lists = [re.findall(r'"([^"]+)"', line) for line in re.findall(r"python: \[(.+)\]", tests)]
    with_models, others = lists
    assert sorted(with_models + others) == sorted([f"3.{minor}" for minor in minors] + threaded)
    promised = read("docs", "compatibility.md")
    assert f"| CPython | 3.{first} to 3.{last} |" in promised
    assert f"| CPython without the GIL | {' and '.join(threaded)} |" in promised
    assert f"Python 3.{first} to 3.{last}" in read("README.md")
    assert f"CPython 3.{first} to 3.{last}, {' and '.join(threaded)}" in read("CHANGELOG.md")
