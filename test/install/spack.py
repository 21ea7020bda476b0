# SPDX-License-Identifier: BSD-3-Clause
"""The recipe for Spack without Spack: loads it with stand-ins for the words of its language, and holds every combination of
its variants against what ./configure takes and asks for. spack.py TOP CONFIGURE; TAP."""
import itertools
import os
import re
import subprocess
import sys
import types

top, configure = sys.argv[1:3]
recipe = os.path.join(top, "contrib/spack/packages/pxshmem/package.py")
known = {"variant": [], "depends_on": [], "version": [], "conflicts": [], "license": []}
count = failed = 0


def check(title, problems):
    global count, failed
    count += 1
    for problem in problems:
        print("#", problem)
    print("not ok" if problems else "ok", count, "-", title)
    failed |= bool(problems)


def directive(name):
    return lambda *words, **settings: known[name].append((words, settings))


class Prefix(str):
    pass


class AutotoolsPackage:
    def with_or_without(self, name, variant):
        return [("--with-" if "+" + variant in self.spec else "--without-") + name]


class CudaPackage:
    pass


class Variant:
    def __init__(self, value):
        self.value = value


class Spec(dict):
    def __init__(self, chosen, archs):
        self.chosen = chosen
        self.variants = {"cuda_arch": Variant(archs)}

    def __contains__(self, text):
        return text[0] == "+" and text[1:] in self.chosen

    def __getitem__(self, name):
        class Dependency:
            prefix = "/spack/" + name

        return Dependency


module = types.ModuleType("spack.package")
for name in known:
    setattr(module, name, directive(name))
module.AutotoolsPackage, module.CudaPackage, module.Executable = AutotoolsPackage, CudaPackage, lambda path: lambda: None
sys.modules["spack"], sys.modules["spack.package"] = types.ModuleType("spack"), module
space = {"__file__": recipe, "__name__": "package"}
exec(compile(open(recipe).read(), recipe, "exec"), space)
package = space["Pxshmem"]

names = {words[0] for words, _ in known["variant"]} | {"cuda"}
check("variants are cuda, verbs, ofi and pmi2", [] if names == {"cuda", "verbs", "ofi", "pmi2"} else [str(names)])
check("it builds the clone it lies in", [] if os.path.samefile(package.git[len("file://"):], top) else [package.git])

options = set(re.findall(r"^ *--(?:with|without)-([a-z0-9-]+)", subprocess.run(
    ["sh", configure, "--help"], capture_output=True, text=True, check=True).stdout, re.M))
problems = []
wanted = {"cuda": "cuda", "verbs": "libibverbs", "ofi": "libfabric", "pmi2": "pmi2"}
for chosen in itertools.chain.from_iterable(itertools.combinations(sorted(names), n) for n in range(5)):
    for archs in (("none",), ("80", "90")):
        made = package()
        made.spec = Spec(chosen, archs)
        arguments = made.configure_args()
        for argument in arguments:
            option = re.sub(r"^--(with|without)-([a-z0-9-]+)(=.*)?$", r"\2", argument)
            if option not in options:
                problems.append("%s: configure does not know %s" % (chosen, argument))
        for variant, option in wanted.items():
            start = "--with-" if variant in chosen else "--without-"
            if not any(a == start + option or a.startswith(start + option + "=") for a in arguments):
                problems.append("%s: nothing begins with %s%s" % (chosen, start, option))
        if ("--with-cuda-arch=80,90" in arguments) != ("cuda" in chosen and archs[0] != "none"):
            problems.append("%s %s: cuda-arch in %s" % (chosen, archs, arguments))
check("each combination of variants gives options that configure has", problems)

asked = dict(re.findall(r"PX_LIBRARY\(\[\w+\], \[([\w-]+) >= ([0-9.]+)\]", open(os.path.join(top, "configure.ac")).read()))
problems = []
for word, settings in ((w[0], s) for w, s in known["depends_on"]):
    name, _, version = word.partition("@")
    if name in asked and version.rstrip(":") != asked[name]:
        problems.append("%s, but configure asks for %s" % (word, asked[name]))
    if settings.get("when", "+cuda")[1:] not in names:
        problems.append("%s: no variant %s" % (word, settings["when"]))
present = {w[0].partition("@")[0] for w, _ in known["depends_on"]}
problems += ["no %s" % name for name in ("pmix", "hwloc", "libfabric", "rdma-core", "slurm", "autoconf") if name not in present]
check("dependencies are those of configure, with its versions", problems)
print("1..%d" % count)
sys.exit(failed)
