"""AWS Lambda: files that arrive in a landing bucket start a run, on Glue, EMR Serverless or Airflow.

The event says only *when* to run: which files are new is what Frazil's bookmark says. A lost event costs time, one too
many costs a run that does nothing. Needs nothing but boto3, which Lambda has.

Settings are variables of the function:
    PREFIX: only keys that begin so start a run; left out: all.
    GLUE_JOB: the name of a Glue job; or
    EMR_APPLICATION, EMR_ROLE, EMR_SCRIPT, EMR_DECLARATION: an application of EMR Serverless, the role of its jobs, the
        script on S3, the declaration in the application's image; or
    AIRFLOW_URL, AIRFLOW_DAG, AIRFLOW_TOKEN_SECRET: the address of Airflow 3, a DAG, and the secret of AWS Secrets
        Manager that holds a token of its API.
"""

from __future__ import annotations

import json
import os
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import boto3

if TYPE_CHECKING:
    from collections.abc import Iterator


class NotConfiguredError(Exception):
    """No variable says what to start."""


def handler(event: dict[str, Any], context: Any = None) -> dict[str, Any]:
    """Start one run for all files of an event; none if no file concerns it.

    Raises:
        Exception: the run could not be started, also because another is at work that may have begun before the files
            arrived. Lambda gives the event again then; with a queue before it, until the run has ended.
    """
    del context
    files = [key for key in arrived(event) if key.startswith(os.environ.get("PREFIX", "")) and not key.endswith("/")]
    return {"files": len(files), "started": start() if files else None}


def arrived(event: dict[str, Any]) -> Iterator[str]:
    """Give the keys of an event: S3's own, EventBridge's, or either in messages of SQS."""
    if "detail" in event:
        yield event["detail"]["object"]["key"]
    for record in event.get("Records", ()):
        if "s3" in record:
            yield unquote_plus(record["s3"]["object"]["key"])
        elif "body" in record:
            yield from arrived(json.loads(record["body"]))


def start() -> str:
    """Start what the variables name; return the id of the run.

    Raises:
        NotConfiguredError: they name nothing.
    """
    given = os.environ
    if job := given.get("GLUE_JOB"):
        return str(boto3.client("glue").start_job_run(JobName=job)["JobRunId"])
    if application := given.get("EMR_APPLICATION"):
        answer = boto3.client("emr-serverless").start_job_run(
            applicationId=application,
            executionRoleArn=given["EMR_ROLE"],
            jobDriver={
                "sparkSubmit": {
                    "entryPoint": given["EMR_SCRIPT"],
                    "entryPointArguments": ["--declaration", given["EMR_DECLARATION"]],
                }
            },
        )
        return str(answer["jobRunId"])
    if dag := given.get("AIRFLOW_DAG"):
        return _airflow(given["AIRFLOW_URL"].rstrip("/"), dag)
    raise NotConfiguredError("set GLUE_JOB, EMR_APPLICATION or AIRFLOW_DAG")


def _airflow(url: str, dag: str) -> str:
    secret = boto3.client("secretsmanager").get_secret_value(SecretId=os.environ["AIRFLOW_TOKEN_SECRET"])
    request = urllib.request.Request(  # noqa: S310 - the address is a setting
        f"{url}/api/v2/dags/{dag}/dagRuns",
        json.dumps({"logical_date": None}).encode(),
        {"Authorization": f"Bearer {secret['SecretString']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return str(json.load(answer)["dag_run_id"])
