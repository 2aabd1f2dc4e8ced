"""The tiny objective of the callbacks' tests."""

from tests.callbacks.conftest import objective as objective
