"""Files are replaced at once, or not at all."""

import os
import subprocess
import sys
import threading

import pytest

from dotsketch._support.files import atomic_write


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_changes_nothing(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write():
        with atomic_write(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_several_writers_do_not_meet(tmp_path):
    path = tmp_path / ("file" * 60)  # almost as long as a name may be
    with atomic_write(path) as first:
        first.write(b"first")
        with atomic_write(path) as second:
            second.write(b"second, longer")
        assert path.read_bytes() == b"second, longer"
    assert path.read_bytes() == b"first"


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    with atomic_write(tmp_path / "file"):
        pass
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_in_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "missing" / "file"):
        pass


@pytest.mark.skipif(os.name != "posix", reason="modes, pipes and processes of POSIX")
class TestPosix:
    @pytest.mark.parametrize("mode", [0o600, 0o666])  # fewer and more than the umask leaves
    def test_the_mode_of_a_file_stays(self, mode, tmp_path):
        path = tmp_path / "file"
        path.write_bytes(b"secret")
        path.chmod(mode)
        with atomic_write(path) as file:
            file.write(b"new")
            [part] = tmp_path.glob("*.part")
            assert part.stat().st_mode & 0o777 & ~mode == 0  # nobody else reads it meanwhile
        assert path.stat().st_mode & 0o777 == mode

    def test_a_pipe_is_written_to_and_stays_one(self, tmp_path):
        path = tmp_path / "pipe"
        os.mkfifo(path)
        received = []
        reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
        reader.start()
        with atomic_write(path) as file:
            file.write(b"text")
        reader.join()
        assert received == [b"text"]
        assert path.is_fifo()
        assert list(tmp_path.iterdir()) == [path]

    def test_what_a_killed_process_left_is_removed(self, tmp_path):
        path = tmp_path / "file"
        script = (
            "import os, sys\n"
            "from dotsketch._support.files import atomic_write\n"
            "with atomic_write(sys.argv[1]) as file:\n"
            "    file.write(b'half')\n"
            "    os.kill(os.getpid(), 9)\n"
        )
        subprocess.run([sys.executable, "-c", script, str(path)], check=False)
        assert len(list(tmp_path.glob("file.*.part"))) == 1
        other = tmp_path / "file.elsewhere-1-0123456789ab.part"  # of another machine
        other.touch()
        with atomic_write(path) as first, atomic_write(path):  # one that is alive stays
            first.write(b"new")
        assert sorted(tmp_path.iterdir()) == sorted([path, other])
        assert path.read_bytes() == b"new"
