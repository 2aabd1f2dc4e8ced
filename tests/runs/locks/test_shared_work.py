"""Work that processes share: whose folder it lies in, and the locks that killed processes leave there."""

from dataclasses import replace

from lightning_xai.runs.locks.owner import Owner
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


def test_new_work_removes_the_locks_of_killed_processes_and_no_others(tmp_path):
    living = Owner.of_this_process()
    killed, elsewhere = replace(living, pid=4194999), replace(living, pid=4194999, host="elsewhere", boot="another")
    locks = {
        "made.lock": killed.to_json(),
        f"made.lock.{'0' * 16}.stale": killed.to_json(),
        "alive.lock": living.to_json(),
        "elsewhere.lock": elsewhere.to_json(),
        "empty.lock": "",
    }
    for name, contents in locks.items():
        (tmp_path / name).write_text(contents)
    file = tmp_path / "new.txt"
    found_or_made(
        lambda: file.exists() or None, lambda: bool(file.write_text("")), file.with_suffix(".lock"), waiting="wait"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive.lock", "elsewhere.lock", "empty.lock", "new.txt"]
