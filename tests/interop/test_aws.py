"""The Lambda handler of ``integrations/aws`` on AWS as moto plays it, and on an Airflow that answers."""

from __future__ import annotations

import importlib.util
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.moto_api import state_manager
from tests.answering import Quiet, address_of, answering

from frazil.spark.jars import AWS as AWS_CLIENT
from frazil.spark.jars import iceberg_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

AWS = Path(__file__).parents[2] / "integrations" / "aws"
ROLE = "arn:aws:iam::123456789012:role/frazil"


def s3_event(*keys: str) -> dict[str, Any]:
    return {"Records": [{"s3": {"bucket": {"name": "landing"}, "object": {"key": key}}} for key in keys]}


@pytest.fixture
def lambda_(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The handler, as Lambda loads it, with an AWS of its own."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.delenv("PREFIX", raising=False)  # many machines have one
    spec = importlib.util.spec_from_file_location("handler", AWS / "handler.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock_aws():
        spec.loader.exec_module(module)
        yield module


def glue_job() -> None:
    boto3.client("glue").create_job(**json.loads((AWS / "glue_job.json").read_text(encoding="utf-8")))


def runs() -> int:
    return len(boto3.client("glue").get_job_runs(JobName="frazil-shop")["JobRuns"])


def test_the_glue_job_has_the_iceberg_of_its_spark() -> None:
    job = json.loads((AWS / "glue_job.json").read_text(encoding="utf-8"))
    jars = [path.rpartition("/")[2] for path in job["DefaultArguments"]["--extra-jars"].split(",")]

    assert job["GlueVersion"] == "5.1"  # which has Spark 3.5.6, by AWS's release notes
    assert jars == [iceberg_runtime("3.5.6").file_name, AWS_CLIENT.file_name]


def test_files_that_land_start_one_run_of_the_glue_job_as_it_is_declared(
    lambda_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    glue_job()
    monkeypatch.setenv("GLUE_JOB", "frazil-shop")
    monkeypatch.setenv("PREFIX", "shop orders/")

    ended = lambda_.handler(s3_event("shop+orders/LOAD1.csv", "shop+orders/a%2Bb.csv", "shop+orders/", "other/x.csv"))

    assert (ended["files"], runs()) == (2, 1)
    assert boto3.client("glue").get_job_run(JobName="frazil-shop", RunId=ended["started"])["JobRun"]["Id"]


def test_events_of_event_bridge_and_of_a_queue_are_read(lambda_: Any) -> None:
    bridge = {"detail-type": "Object Created", "detail": {"object": {"key": "a b.csv"}}}
    queue = {"Records": [{"body": json.dumps(s3_event("c+d.csv"))}, {"body": json.dumps(bridge)}]}

    assert [*lambda_.arrived(bridge)] == ["a b.csv"]
    assert [*lambda_.arrived(queue)] == ["c d.csv", "a b.csv"]


def test_events_without_files_start_no_run(lambda_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFIX", "shop/")

    assert lambda_.handler({"Event": "s3:TestEvent"}) == {"files": 0, "started": None}
    assert lambda_.handler(s3_event("other/x.csv")) == {"files": 0, "started": None}


def test_while_a_run_is_at_work_the_event_comes_back(lambda_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is at work may have listed the folder before the file came."""
    glue_job()
    monkeypatch.setenv("GLUE_JOB", "frazil-shop")
    state_manager.set_transition("glue::job_run", {"progression": "manual", "times": 9})
    try:
        lambda_.handler(s3_event("a.csv"))
        with pytest.raises(ClientError, match="ConcurrentRunsExceeded"):
            lambda_.handler(s3_event("b.csv"))
    finally:
        state_manager.unset_transition("glue::job_run")


def test_a_job_of_emr_serverless_is_started(lambda_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    emr = boto3.client("emr-serverless")
    application = emr.create_application(name="frazil", releaseLabel="emr-7.0.0", type="SPARK")["applicationId"]
    emr.start_application(applicationId=application)
    script, declaration = "s3://my-bucket/glue_job.py", "/opt/shop/frazil.yml"
    given = {"APPLICATION": application, "ROLE": ROLE, "SCRIPT": script, "DECLARATION": declaration}
    for name, value in given.items():
        monkeypatch.setenv(f"EMR_{name}", value)

    run = lambda_.handler(s3_event("a.csv"))["started"]

    found = emr.get_job_run(applicationId=application, jobRunId=run)["jobRun"]
    assert found["jobDriver"]["sparkSubmit"]["entryPoint"] == script
    assert found["jobDriver"]["sparkSubmit"]["entryPointArguments"] == ["--declaration", declaration]


def test_a_dag_of_airflow_is_started_with_the_token_of_a_secret(lambda_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None, Any]] = []

    class Airflow(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, self.headers["Authorization"], body))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"dag_run_id": "manual__1"}')

    boto3.client("secretsmanager").create_secret(Name="airflow", SecretString="word")
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Airflow)) as server:
        monkeypatch.setenv("AIRFLOW_URL", f"{address_of(server)}/")
        monkeypatch.setenv("AIRFLOW_DAG", "shop")
        monkeypatch.setenv("AIRFLOW_TOKEN_SECRET", "airflow")
        ended = lambda_.handler(s3_event("a.csv"))

    assert ended == {"files": 1, "started": "manual__1"}
    assert asked == [("/api/v2/dags/shop/dagRuns", "Bearer word", {"logical_date": None})]


def test_a_function_that_is_not_set_up_says_so(lambda_: Any) -> None:
    with pytest.raises(lambda_.NotConfiguredError, match="GLUE_JOB"):
        lambda_.handler(s3_event("a.csv"))
