"""Builds the wheel of tutti: the extension module, the library libtutti.so.0 and the command `tutti`.

TUTTI_BUILD names a folder in which cmake has built the library. Without it, setup.py builds the library here.
"""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = Path(__file__).resolve().parent.parent
TARGETS = ["tutti", "tutti_cli"]


def library_folder(temporary: Path) -> Path:
    """Returns a folder that contains libtutti.so and the command."""
    given = os.environ.get("TUTTI_BUILD")
    if given:
        return Path(given).resolve()
    jobs = str(os.cpu_count() or 1)
    options = ["-DTUTTI_TESTS=OFF", "-DTUTTI_WARNINGS=OFF"]
    subprocess.run(["cmake", "-S", SOURCE, "-B", temporary, *options], check=True)
    subprocess.run(["cmake", "--build", temporary, "-j", jobs, "--target", *TARGETS], check=True)
    return temporary


class build_with_library(build_ext):
    """Puts the library and the command beside the extension module, which finds the library there."""

    def run(self) -> None:
        folder = library_folder(Path(self.build_temp).resolve() / "tutti")
        for extension in self.extensions:
            extension.library_dirs.append(str(folder))
        super().run()
        package = Path(self.get_ext_fullpath("tutti._core")).parent
        (package / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "libtutti.so.0", package)
        shutil.copy(folder / "tutti", package / "bin")


core = Extension(
    "tutti._core",
    ["src/core.cpp"],
    include_dirs=[str(SOURCE / "include")],
    libraries=["tutti"],
    language="c++",
    extra_compile_args=["-std=c++17", "-O2", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-fvisibility=hidden"],
    extra_link_args=["-Wl,-rpath,$ORIGIN"],
)

setup(
    packages=["tutti"],
    package_data={"tutti": ["py.typed", "*.pyi"]},
    ext_modules=[core],
    cmdclass={"build_ext": build_with_library},
)
