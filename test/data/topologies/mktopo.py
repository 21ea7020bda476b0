#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the machines of this folder as hwloc 2 XML, from a compact description of each.

A machine is a list of packages, a package a list of NUMA nodes, a NUMA node a list of host bridges, a host bridge a list of
devices, each below a root port of its own: gpu(), nic(), cxi(), hsn(), efa(), eth(), card(device ...) for several functions
of one card, switch(device ...) for a PCI switch with one port per device.

Speed is not in lstopo's XML; the info "Port1Rate" (Gb/s) stands in for what sysfs tells on a live system.
Needed only to add a machine: the tests read the XML files.
"""
import os
import sys


def gpu(ident="10de:2330"):
    return {"class": "0302", "id": ident, "os": []}


def nic(name=None, rate=400, state=4, ib=True, vf=False, ports=1):
    info = []
    for p in range(1, ports + 1):
        st = state[p - 1] if isinstance(state, list) else state
        info += [(f"Port{p}State", st), (f"Port{p}Rate", rate)]
    return {"class": "0207" if ib else "0200", "id": "15b3:101e" if vf else "15b3:1021",
            "os": [("mlx5_%d" if name is None else name, 3, info)], "vf": vf}


def cxi():
    return {"class": "0200", "id": "17db:0501", "os": [("cxi%d", 3, [("Port1State", 4), ("Port1Rate", 200)])]}


def hsn():
    return {"class": "0200", "id": "17db:0501", "os": [("hsn%d", 2, [])]}


def efa(rate=100):
    return {"class": "0200", "id": "1d0f:efa1", "os": [("rdmap%b", 3, [("Port1State", 4), ("Port1Rate", rate)])]}


def eth():
    return {"class": "0200", "id": "8086:1563", "os": [("eth%d", 2, [])]}


def soft(name):
    """A device of software, outside PCI."""
    return {"soft": True, "os": [(name, 3, [("Port1State", 4)])]}


def card(*functions):
    return ("card", functions)


def switch(*devices):
    return ("switch", devices)


def mask(bits):
    value, words = sum(1 << b for b in bits), []
    while True:
        words.append("0x%08x" % (value & 0xffffffff))
        value >>= 32
        if not value:
            return ",".join(reversed(words))


class Writer:
    def __init__(self, cores, threads, gpu_memory):
        self.cores, self.threads, self.gpu_memory = cores, threads, gpu_memory
        self.lines, self.gp, self.domain, self.bus, self.cpu, self.counts = [], 0, 0, 0, 0, {}

    def index(self):
        self.gp += 1
        return self.gp

    def put(self, depth, text):
        self.lines.append("  " * depth + text)

    def os_devices(self, depth, device, bus):
        for pattern, kind, info in device["os"]:
            n = self.counts.get(pattern, 0)
            self.counts[pattern] = n + 1
            name = pattern.replace("%d", str(n)).replace("%b", f"{bus}s0")
            self.put(depth, f'<object type="OSDev" gp_index="{self.index()}" name="{name}" osdev_type="{kind}">')
            for key, value in info:
                self.put(depth + 1, f'<info name="{key}" value="{value}"/>')
            self.put(depth, "</object>")

    def function(self, depth, device, bus, dev, func):
        self.put(depth, f'<object type="PCIDev" gp_index="{self.index()}" pci_busid="{self.domain:04x}:{bus:02x}:{dev:02x}.{func}" '
                        f'pci_type="{device["class"]} [{device["id"]}] [0000:0000] 00" pci_link_speed="63.015385">')
        self.os_devices(depth + 1, device, bus)
        self.put(depth, "</object>")

    def bridge(self, depth, level, bus, dev, inside):
        """A PCI bridge at bus:dev.0, and what `inside` writes below it on the next bus."""
        at = len(self.lines)
        gp = self.index()
        self.bus += 1
        first = self.bus
        inside(depth + 1, level + 1, first)
        self.lines.insert(at, "  " * depth + f'<object type="Bridge" gp_index="{gp}" bridge_type="1-1" depth="{level}" '
                          f'bridge_pci="{self.domain:04x}:[{first:02x}-{self.bus:02x}]" '
                          f'pci_busid="{self.domain:04x}:{bus:02x}:{dev:02x}.0" pci_type="0604 [1000:c030] [0000:0000] 00" '
                          f'pci_link_speed="63.015385">')
        self.put(depth, "</object>")

    def below(self, depth, level, bus, node):
        """One device, card or switch on a bus of its own."""
        if isinstance(node, dict):
            return self.function(depth, node, bus, 0, 0)
        kind, parts = node
        if kind == "card":
            for func, part in enumerate(parts):
                self.function(depth, part, bus, 0, func)
            return None
        # The switch's upper side is a bridge on this bus; one lower port per device on the bus behind it.
        def lower_ports(d, lv, inner):
            for dev, part in enumerate(parts):
                self.bridge(d, lv, inner, dev, lambda d2, lv2, b: self.below(d2, lv2, b, part))
        return self.bridge(depth, level, bus, 0, lower_ports)

    def host_bridge(self, depth, devices, flat):
        at = len(self.lines)
        gp = self.index()
        first = self.bus
        for dev, node in enumerate(devices):
            if flat:
                self.function(depth + 1, node, first, dev + 1, 0)
            else:
                self.bridge(depth + 1, 1, first, dev + 1, lambda d, lv, b: self.below(d, lv, b, node))
        self.lines.insert(at, "  " * depth + f'<object type="Bridge" gp_index="{gp}" bridge_type="0-1" depth="0" '
                          f'bridge_pci="{self.domain:04x}:[{first:02x}-{self.bus:02x}]">')
        self.put(depth, "</object>")
        self.bus += 1
        if self.bus > 150:
            self.domain, self.bus = self.domain + 1, 0

    def core(self, depth, number, node):
        threads = [self.cpu + t * 1 for t in range(self.threads)]
        self.cpu += self.threads
        n = f'nodeset="{node}" complete_nodeset="{node}"'
        c = mask(threads)
        self.put(depth, f'<object type="Core" os_index="{number}" cpuset="{c}" complete_cpuset="{c}" {n} gp_index="{self.index()}">')
        for t in threads:
            c = mask([t])
            self.put(depth + 1, f'<object type="PU" os_index="{t}" cpuset="{c}" complete_cpuset="{c}" {n} gp_index="{self.index()}"/>')
        self.put(depth, "</object>")


def sets(cpus, nodes):
    c, n = mask(cpus), mask(nodes)
    return f'cpuset="{c}" complete_cpuset="{c}" nodeset="{n}" complete_nodeset="{n}"'


def machine(packages, cores=4, threads=1, at_machine=(), gpu_memory=0, allowed=None):
    """at_machine: host bridges and soft devices whose locality nobody tells; gpu_memory: NUMA nodes without processors."""
    w = Writer(cores, threads, gpu_memory)
    n_nodes = sum(len(p) for p in packages)
    per = cores * threads
    every, nodes = range(n_nodes * per), range(n_nodes + gpu_memory)
    may = mask(every if allowed is None else allowed)
    w.put(0, '<?xml version="1.0" encoding="UTF-8"?>')
    w.put(0, '<!DOCTYPE topology SYSTEM "hwloc2.dtd">')
    w.put(0, '<topology version="2.0">')
    w.put(1, f'<object type="Machine" os_index="0" {sets(every, nodes)} allowed_cpuset="{may}" allowed_nodeset="{mask(nodes)}" gp_index="{w.index()}">')
    for k in range(gpu_memory):
        w.put(2, f'<object type="NUMANode" os_index="{n_nodes + k}" subtype="GPUMemory" {sets([], [n_nodes + k])} gp_index="{w.index()}" local_memory="103079215104"/>')
    node = 0
    for number, package in enumerate(packages):
        cpus = range(node * per, (node + len(package)) * per)
        w.put(2, f'<object type="Package" os_index="{number}" {sets(cpus, range(node, node + len(package)))} gp_index="{w.index()}">')
        for bridges in package:
            mine = sets(range(node * per, (node + 1) * per), [node])
            w.put(3, f'<object type="Group" {mine} gp_index="{w.index()}" kind="1000" subkind="0">')
            w.put(4, f'<object type="NUMANode" os_index="{node}" {mine} gp_index="{w.index()}" local_memory="137438953472"/>')
            for k in range(cores):
                w.core(4, node * cores + k, mask([node]))
            for devices in bridges:
                w.host_bridge(4, devices, False)
            w.put(3, "</object>")
            node += 1
        w.put(2, "</object>")
    for item in at_machine:
        if isinstance(item, dict):
            w.os_devices(2, item, 0)
        else:
            w.host_bridge(2, item, True)
    w.put(1, "</object>")
    w.put(0, "</topology>")
    return "\n".join(w.lines) + "\n"


def renamed():
    """dense-h100 again, with names that say nothing."""
    names = iter(["roce_b3", "ibp1", "fabric7", "a", "hca-0", "zz", "net_9", "m", "storage"])
    one = lambda: [[switch(gpu(), nic(next(names)))]]
    return [[one() + one() + one() + one() + [[eth()]]], [one() + one() + one() + one() + [[nic(next(names), rate=200)]]]]


G, N = gpu, nic
MACHINES = {
    "dense-h100": machine([[[[switch(G(), N())]] * 4 + [[eth()]]], [[[switch(G(), N())]] * 4 + [[N(rate=200)]]]]),
    "dense-a100": machine([[[[switch(G(), G(), N(rate=200), N(rate=200))]] * 2 + [[N(rate=200)]]],
                           [[[switch(G(), G(), N(rate=200), N(rate=200))]] * 2 + [[N(rate=200)]]]]),
    "renamed-h100": machine(renamed()),
    "blade-cxi": machine([[[[G(), cxi()]], [[G(), cxi()]], [[G(), cxi()]], [[G(), cxi()]]]], threads=2),
    "blade-hsn": machine([[[[G(), hsn()]], [[G(), hsn()]], [[G(), hsn()]], [[G(), hsn()]]]]),
    "blade-far-nics": machine([[[[G()]], [[G()], [cxi(), cxi()]], [[G()]], [[G()], [cxi(), cxi()]]]]),
    "workstation": machine([[[[G()], [G()], [eth()]]]]),
    "login": machine([[[[N(rate=200)], [eth()]]]]),
    "cpu-two-sockets": machine([[[[N(rate=200)]]], [[[N(rate=200)]]]], threads=2),
    "efa-four-each": machine([[[[switch(G(), efa(), efa(), efa(), efa())]] * 4]] * 2),
    "efa-half": machine([[[[switch(G(), G(), efa(), eth())]] * 2]] * 2),
    "one-bridge-pairs": machine([[[[switch(G(), G()), N(), N()]]]]),
    "one-near-one-apart": machine([[[[switch(G(), G(), N()), N()]]]]),
    "joined-switches": machine([[[[switch(switch(G(), G(), N()), switch(G(), G()), N(), N())]]]]),
    "nics-one-socket": machine([[[[G()], [G()], [N()], [N()]]], [[[G()], [G()]]]]),
    "uneven-sockets": machine([[[[G()], [G()], [N()]]], [[[G()], [G()], [N()], [N()], [N()]]]]),
    "port-down": machine([[[[switch(G(), N())], [switch(G(), N(state=1))], [switch(G(), N())], [switch(G(), N())]]]]),
    "all-down": machine([[[[switch(G(), N(state=1))]]]]),
    "dual-port-cards": machine([[[[switch(G(), G(), card(N(rate=200), N(rate=200)), card(N(rate=200), N(rate=200)))]]]]),
    "two-port-device": machine([[[[switch(G(), N(rate=100, ports=2))], [switch(G(), N(rate=100, ports=2, state=[4, 1]))]]]]),
    "bond": machine([[[[switch(G(), card(N("mlx5_bond_0", rate=200, ib=False), eth()))], [G()]]]]),
    "bond-twice": machine([[[[switch(G(), card(N("mlx5_bond_0", rate=200, ib=False), N("mlx5_bond_0", rate=200, ib=False)))],
                             [G()]]]]),
    "management-nic": machine([[[[switch(G(), N())], [switch(G(), N())], [N("mlx5_mgmt", rate=25, ib=False)]]]]),
    "slow-roce": machine([[[[G()], [G()], [N(rate=400, ib=False)], [N(rate=25, ib=False)]]]]),
    "virtual-functions": machine([[[[switch(G(), card(N(), N(vf=True), N(vf=True)))],
                                    [switch(G(), card(N(), N(vf=True)))]]]]),
    "guest-flat": machine([[[]], [[]]], at_machine=[[G()] * 4 + [N(vf=True)] * 4]),
    "grace": machine([[[[G()], [N()]]], [[[G()], [N()]]], [[[G()], [N()]]], [[[G()], [N()]]]], gpu_memory=4),
    "soft-device": machine([[[]]], at_machine=[soft("rxe0")]),
    "two-cores": machine([[[[switch(G(), N())]] * 2]] * 2, cores=1),
    "half-allowed": machine([[[[switch(G(), N())]]], [[[switch(G(), N())]]]], allowed=range(0, 4)),
}

if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for name, text in MACHINES.items():
        with open(os.path.join(folder, name + ".xml"), "w") as file:
            file.write(text)
