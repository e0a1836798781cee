"""What an engine says where its package, its commands or its cluster are not there."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from auditkit.errors import BadInputError
from auditkit.sweep.driver import ENGINES, open_engine

pytestmark = pytest.mark.process


def refusal(name: str, folder: Path, **options: str) -> str:
    (folder / "logs").mkdir(exist_ok=True)
    with pytest.raises(BadInputError) as raised:
        open_engine(name, folder, None, options)
    return f"{raised.value.message} | {raised.value.hint}"


@pytest.mark.parametrize("name", ENGINES)
def test_an_option_that_it_does_not_have(name: str, tmp_path: Path) -> None:
    assert "has no option 'memroy' | " in refusal(name, tmp_path, memroy="1")


def test_no_ray_cluster_at_the_address(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="pip install '.[ray]'")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    said = refusal("ray", tmp_path, address=address)
    assert said.startswith(
        f"no Ray cluster at {address}: [Errno 111] Connection refused | `ray start --head` starts one"
    )
