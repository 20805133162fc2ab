"""A throw-away S3 server serves as many buckets as a whole test run makes."""

from __future__ import annotations

import pytest
from pyarrow import fs

from frazil.testing.s3 import s3_server

pytestmark = pytest.mark.server

BUCKETS = 20


def test_one_server_has_room_for_the_buckets_of_many_tests() -> None:
    with s3_server() as server:
        objects = fs.S3FileSystem(
            access_key=server.access_key_id,
            secret_key=server.secret_access_key,
            endpoint_override=server.endpoint,
            region="us-east-1",
        )
        for number in range(BUCKETS):
            server.make_bucket(f"bucket-{number}")
            with objects.open_output_stream(f"bucket-{number}/object") as out:
                out.write(b"told")
        for number in range(BUCKETS):
            assert objects.open_input_stream(f"bucket-{number}/object").read() == b"told"
