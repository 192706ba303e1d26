"""A new shared library for each test; where its servers can't be had, the test is skipped."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from refdesk.store.shared.store import SharedStore
from tests.scale import servers
from tests.scale.shared import filled

_number = itertools.count()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, Any, Any]:
    """Skips a test whose own servers can't be had."""
    try:
        return (yield)
    except servers.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def address() -> str:
    """The address of a new library."""
    return servers.address(*servers.for_tests(), schema=f"own{next(_number)}", shards="1", replicas="1")


@pytest.fixture
def store(address: str) -> Iterator[SharedStore]:
    """An empty one with a collection and an embedder."""
    made = filled(address)
    yield made
    made.close()
