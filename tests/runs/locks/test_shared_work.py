"""Work that processes share: whose folder it lies in."""

from lightning_xai.runs.locks.shared_work import found_or_made


def test_only_the_owner_may_read_the_folder_that_the_lock_needs(tmp_path):
    file = tmp_path / "cache" / "sources" / "table.json"

    def make() -> str:
        file.write_text("{}")
        return file.read_text()

    def find() -> str | None:
        return file.read_text() if file.exists() else None

    assert found_or_made(find, make, file.with_suffix(".lock"), waiting="wait") == "{}"
    assert [path.stat().st_mode & 0o077 for path in (tmp_path / "cache", file.parent)] == [0, 0]
