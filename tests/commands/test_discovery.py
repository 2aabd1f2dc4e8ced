"""Classes are known by their short names once every module of the package is imported."""

import sys

from lightning_xai.commands.discovery import import_all
from tests.commands.conftest import ROOT


def test_every_file_of_a_room_with_interchangeable_classes_is_imported():
    import_all()
    for room in ("data", "data/sources", "models", "attributions", "metrics", "objectives", "callbacks", "chains"):
        for file in (ROOT / "lightning_xai" / room).glob("[!_]*.py"):
            assert f"lightning_xai.{room.replace('/', '.')}.{file.stem}" in sys.modules
