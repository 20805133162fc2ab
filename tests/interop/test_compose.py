"""The compose file starts what ``make up`` starts; no container engine is needed to see that it is one."""

from __future__ import annotations

from pathlib import Path

import yaml

STACK = Path(__file__).parents[2] / "examples" / "stack"


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def test_the_compose_file_builds_the_clone_and_runs_make_up_and_make_down() -> None:
    compose = yaml.safe_load((STACK / "compose.yaml").read_text(encoding="utf-8"))
    service = compose["services"]["stack"]
    clone, recipe = STACK / service["build"]["context"], service["build"]["dockerfile"]
    makefile = (clone / "Makefile").read_text(encoding="utf-8")

    assert compose.keys() == {"services", "volumes"}
    assert {volume.split(":")[0] for volume in service["volumes"]} == compose["volumes"].keys()
    assert service["network_mode"] == "host"
    assert all(f"\n{verb}:" in makefile and f"make {verb}" in service["command"][2] for verb in ("up", "down"))
    assert any(f"cache:{line.partition('XDG_CACHE_HOME=')[2]}" in service["volumes"] for line in lines(clone / recipe))
    last = lines(clone / recipe)[-1]
    assert last.startswith("RUN make ")
    assert all(f"\n{target}:" in makefile for target in last.removeprefix("RUN make ").split())
    assert ".venv*" in lines(clone / f"{recipe}.dockerignore")
