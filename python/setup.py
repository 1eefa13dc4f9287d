"""Builds the wheel of tutti: the extension module, the library libtutti.so.0 and the command `tutti`; and the backend of
torch.distributed, if torch and its headers are installed.

TUTTI_BUILD names a folder in which cmake has built the library. Without it, setup.py builds the library here.
With TUTTI_BUNDLE=0 the package contains neither: it uses the library and the command of the system, as packages of
distributions do. With TUTTI_TORCH=0 the backend is left out.
"""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = Path(__file__).resolve().parent.parent
TARGETS = ["tutti", "tutti_cli"]
BUNDLE = os.environ.get("TUTTI_BUNDLE") != "0"


def find_library_at(folder: str) -> list[str]:
    """Returns the arguments of the linker by which an extension finds the bundled library; none without a bundle."""
    return [f"-Wl,-rpath,{folder}"] if BUNDLE else []


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
        if not BUNDLE:
            return
        package = Path(self.get_ext_fullpath("tutti._core")).parent
        (package / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "libtutti.so.0", package)
        shutil.copy(folder / "tutti", package / "bin")


def of_torch() -> list[Extension]:
    """Returns the extension module of tutti.torch; nothing if there is no torch, or only a part of it, where this is built."""
    if os.environ.get("TUTTI_TORCH") == "0" or not importlib.util.find_spec("torch"):
        return []
    from torch.utils import cpp_extension

    folders = cpp_extension.include_paths()
    header = "torch/csrc/distributed/c10d/Work.hpp"
    if not any((Path(folder) / header).exists() for folder in [*folders, "/usr/include"]):
        print(f"setup.py: {header} not found: tutti.torch is not built (in Debian: libtorch-dev, pybind11-dev)")
        return []
    return [
        Extension(
            "tutti.torch._backend",
            ["src/torch.cpp"],
            include_dirs=[str(SOURCE / "include")],
            library_dirs=cpp_extension.library_paths(),
            libraries=["tutti", "c10", "torch_cpu", "torch_python"],
            language="c++",
            define_macros=[("TORCH_EXTENSION_NAME", "_backend")],
            extra_compile_args=["-std=c++17", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fvisibility=hidden"]
            + [f"-isystem{folder}" for folder in folders],
            extra_link_args=find_library_at("$ORIGIN/.."),
        )
    ]


core = Extension(
    "tutti._core",
    ["src/core.cpp"],
    include_dirs=[str(SOURCE / "include")],
    libraries=["tutti"],
    language="c++",
    extra_compile_args=["-std=c++17", "-O2", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-fvisibility=hidden"],
    extra_link_args=find_library_at("$ORIGIN"),
)

setup(
    packages=["tutti", "tutti.torch"],
    package_data={"tutti": ["py.typed", "*.pyi"]},
    ext_modules=[core, *of_torch()],
    cmdclass={"build_ext": build_with_library},
)
