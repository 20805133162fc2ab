"""The manifests of the page about Kubernetes: by its schemas, and by what the schemas cannot see."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import typer
import yaml
from tests.docs.page import blocks

from frazil.cli.main import app

PAGE: Final = Path(__file__).parents[2] / "docs" / "kubernetes.md"
MANIFESTS: Final[list[dict[str, Any]]] = [
    one
    for block in blocks(PAGE.read_text(encoding="utf-8"))
    if block.language == "yaml"
    for one in yaml.safe_load_all(block.text)
    if "apiVersion" in one
]
NAMES: Final = [f"{one['kind']}-{one['metadata']['name']}" for one in MANIFESTS]


def pods() -> list[dict[str, Any]]:
    specs = [one["spec"] for one in MANIFESTS if one["kind"] in ("Deployment", "CronJob")]
    templates = [spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec for spec in specs]
    return [template["template"]["spec"] for template in templates]


@pytest.mark.parametrize("version", ["1.25", "1.37"])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=NAMES)
def test_manifests_follow_the_schemas_of_kubernetes(manifest: dict[str, Any], version: str) -> None:
    assert kubernetes_validate.validate(manifest, version, strict=True) == version
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**manifest, "spec": {**manifest["spec"], "replica": 1}}, version, strict=True)


def test_pods_mount_volumes_that_exist_and_find_their_labels_and_ports() -> None:
    claims = {one["metadata"]["name"] for one in MANIFESTS if one["kind"] == "PersistentVolumeClaim"}
    [watch] = [one["spec"] for one in MANIFESTS if one["kind"] == "Deployment"]

    for pod in pods():
        [container] = pod["containers"]
        volumes = {one["name"]: one for one in pod["volumes"]}
        assert {one["name"] for one in container["volumeMounts"]} == {*volumes}
        assert {claim["claimName"] for one in pod["volumes"] if (claim := one.get("persistentVolumeClaim"))} <= claims
        probes = [one["httpGet"]["port"] for name, one in container.items() if name.endswith("Probe")]
        assert {*probes} <= {one["name"] for one in container.get("ports", ())}
    assert watch["selector"]["matchLabels"] == watch["template"]["metadata"]["labels"]


def test_pods_call_commands_that_exist() -> None:
    group = typer.main.get_command(app)

    for pod in pods():
        program, name, *words = pod["containers"][0]["command"]
        read = group.commands[name].make_context(name, [*words]).params  # type: ignore[attr-defined]

        assert program == "frazil"
        assert f"{read['path']}" == "/projects/shop"
