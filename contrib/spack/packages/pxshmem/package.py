# SPDX-License-Identifier: BSD-3-Clause
"""The recipe for Spack, 0.23 or newer. It builds the clone that it lies in."""

import os

from spack.package import *

try:  # since Spack 1.0; before, they come with spack.package
    from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:
    pass


class Pxshmem(AutotoolsPackage, CudaPackage):
    """PMIx-native symmetric-memory runtime with the NVSHMEM interface."""

    # From a release, which is no clone: spack dev-build pxshmem@main
    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("verbs", default=True, description="InfiniBand and RoCE between nodes")
    variant("ofi", default=True, description="Other networks between nodes, by libfabric")
    variant("pmi2", default=False, description="srun --mpi=pmi2")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("pmix@3.2:")
    depends_on("hwloc@2.1:")
    depends_on("rdma-core", when="+verbs")
    depends_on("libfabric@1.11:", when="+ofi")
    depends_on("slurm", when="+pmi2")

    conflicts("platform=darwin", msg="pxshmem is for Linux")
    conflicts("platform=windows", msg="pxshmem is for Linux")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        spec = self.spec
        args = ["--without-mpi", "--without-cmocka"]  # only tests want them
        args += self.with_or_without("libibverbs", variant="verbs")
        args += self.with_or_without("libfabric", variant="ofi")
        args.append("--with-pmi2=" + spec["slurm"].prefix if "+pmi2" in spec else "--without-pmi2")
        if "+cuda" in spec:
            args.append("--with-cuda=" + spec["cuda"].prefix)
            if "none" not in spec.variants["cuda_arch"].value:
                args.append("--with-cuda-arch=" + ",".join(spec.variants["cuda_arch"].value))
        else:
            args.append("--without-cuda")
        return args
