"""Each checker accepts a good tree and finds the one thing that is wrong in a bad one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import check_files
import check_layers
import check_lists
import check_sizes
import check_types
import isa_objects
import pytest
import tidy
from tree import Tree

ROOT = Path(__file__).resolve().parents[2]
HEADER = "#pragma once\n"
INFOS = "src/04kernel/include/kernel/ops/o.h"
SAVED = "src/05computation/src/saved/operator_infos.h"
INFO = HEADER + 'struct {}Info {{\n    static constexpr char const* kType = "A";\n}};\n'
GOOD = {
    "src/00common/CMakeLists.txt": "add_layer(00 common SOURCES src/a.cc src/b.cc TESTS src/a_test.cc)\n",
    "src/00common/README.md": "# 00common\n",
    "src/00common/include/common/a.h": HEADER,
    "src/00common/src/a.cc": '#include "common/a.h"\n',
    "src/00common/src/b.cc": '#include "private.h"\n',
    "src/00common/src/a_test.cc": "#include <vector>\n",
    "src/00common/src/private.h": HEADER,
    "src/01graph_topo/CMakeLists.txt": "add_layer(01 graph_topo\n    DEPENDS common)\n",
    "src/01graph_topo/README.md": "# 01graph_topo\n",
    "src/01graph_topo/include/graph_topo/g.h": HEADER + '#include "common/a.h"\n',
}


def messages(checker, folder: Path, changes: dict[str, str | bytes | None]) -> list[str]:
    for path, content in {**GOOD, **changes}.items():
        if content is None:
            continue
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return checker.check(Tree(folder))


@pytest.mark.parametrize("checker", [check_files, check_layers, check_lists, check_sizes, check_types])
def test_good_tree_passes(checker, tmp_path):
    assert messages(checker, tmp_path, {}) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"src/00common/src/a.cc": '#include "graph_topo/g.h"\n'}, "only lower layers"),
        ({"src/00common/src/a.cc": '#include "../include/common/a.h"\n'}, "not '..'"),
        ({"src/01graph_topo/include/graph_topo/g.h": HEADER + '#include "common/private.h"\n'}, "not a public header"),
        ({"src/01graph_topo/include/graph_topo/g.h": HEADER + '#include "00common/a.h"\n'}, "without the number"),
        ({"src/00common/CMakeLists.txt": "add_layer(00 common DEPENDS graph_topo)\n"}, "not lower"),
        ({"src/00common/CMakeLists.txt": "add_layer(00 common DEPENDS nothing)\n"}, "not a layer"),
        ({"src/01graph_topo/README.md": None}, "no README.md"),
        ({"src/01graph_topo/CMakeLists.txt": None}, "no CMakeLists.txt"),
        ({"src/stray.cc": "int x;\n"}, "outside of the layers"),
    ],
)
def test_layers(tmp_path, changes, expected):
    found = messages(check_layers, tmp_path, changes)
    assert any(expected in message for message in found), found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"src/00common/CMakeLists.txt": "add_layer(00 common SOURCES src/b.cc src/a.cc TESTS src/a_test.cc)\n"},
            "not sorted",
        ),
        ({"src/00common/CMakeLists.txt": "add_layer(00 common SOURCES src/a.cc TESTS src/a_test.cc)\n"}, "in no list"),
        (
            {"src/00common/CMakeLists.txt": "add_layer(00 common SOURCES src/a.cc src/b.cc src/c.cc)\n"},
            "does not exist",
        ),
        (
            {"src/00common/CMakeLists.txt": "add_layer(00 common SOURCES src/a.cc src/a_test.cc src/b.cc)\n"},
            "belongs to TESTS",
        ),
        ({"src/00common/CMakeLists.txt": "add_cuda_plugin(p SOURCES src/b.cc src/a.cc)\n"}, "p is not sorted"),
        ({"src/00common/src/x_kernels.inc": "RG_KERNEL(x, reference)\nRG_KERNEL(x, fast)\n"}, "must be last"),
        ({"src/00common/src/x_kernels.inc": "RG_KERNEL(x, fast)\nRG_KERNEL(x, fast)\n"}, "listed twice"),
        ({"src/00common/src/x_list.inc": "RG_OPERATOR(b)\nRG_OPERATOR(a)\n"}, "not in sorted order"),
        ({INFOS: INFO.format("Add"), SAVED: HEADER + "InfoList<SubInfo>"}, "lacks AddInfo"),
        ({INFOS: INFO.format("Add"), SAVED: HEADER + "InfoList<AddInfo, SubInfo>"}, "names SubInfo"),
        ({INFOS: INFO.format("Add"), SAVED: HEADER + "InfoList<SubInfo, AddInfo>"}, "is not sorted"),
        ({"src/00common/src/x_list.inc": "// priority order\nRG_K(a_reference)\nRG_K(b)\n"}, "must be last"),
    ],
)
def test_lists(tmp_path, changes, expected):
    found = messages(check_lists, tmp_path, changes)
    assert any(expected in message for message in found), found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"src/00common/src/private.h": HEADER * 201}, "the limit is 200"),
        ({"src/00common/src/a.cc": "int x;\n" * 601}, "the limit is 600"),
        ({"src/00common/src/a_impl.h": HEADER * 601}, "the limit is 600"),
        ({"src/00common/src/a.cu": "int x;\n" * 801}, "the limit is 800"),
        ({check_sizes.ALLOW_LIST: "src/00common/src/a.cc 700\n"}, "<reason>"),
        ({check_sizes.ALLOW_LIST: "src/00common/src/gone.cc 700 big\n"}, "does not exist"),
        ({check_sizes.ALLOW_LIST: "src/00common/src/a.cc 700 big\n"}, "needs no exception"),
        ({f"src/00common/src/s{i}.cc": "int x;\n" * 200 for i in range(30)}, "the median file"),
    ],
)
def test_sizes(tmp_path, changes, expected):
    found = messages(check_sizes, tmp_path, changes)
    assert any(expected in message for message in found), found


def test_allow_list_lifts_the_limit(tmp_path):
    changes = {
        "src/00common/src/a.cc": "int x;\n" * 650,
        check_sizes.ALLOW_LIST: "src/00common/src/a.cc 650 generated table\n",
    }
    assert messages(check_sizes, tmp_path, changes) == []


def test_long_source_is_a_warning(tmp_path):
    assert messages(check_sizes, tmp_path, {"src/00common/src/a.cc": "int x;\n" * 301}) == []
    assert len(check_sizes.warnings(Tree(tmp_path))) == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"src/00common/src/BadName.cc": "int x;\n"}, "snake_case"),
        ({"src/00common/src/Sub/a.cc": "int x;\n"}, "folder names"),
        ({"src/00common/src/a.cpp": "int x;\n"}, "host code"),
        ({"src/00common/src/a.cc": b"\xef\xbb\xbfint x;\n"}, "byte order mark"),
        ({"src/00common/src/a.cc": b"int x; // \xff\n"}, "not UTF-8"),
        ({"src/00common/src/a.cc": "int x;\r\n"}, "carriage returns"),
        ({"src/00common/src/a.cc": "int x;"}, "newline"),
        ({"src/00common/src/a.cc": "int x; \n"}, "trailing white space"),
        ({"src/00common/src/private.h": "int x;\n"}, "#pragma once"),
        ({"src/00common/src/a.cu": "int x;\n"}, "no device code"),
        ({"src/00common/src/a_avx2.cc": "#include <vector>\n"}, "ISA files"),
        ({"src/00common/src/a.cc": "auto* x = c.workspace + worker * size;\n"}, "scratch_of"),
        ({"docs/x.md": "cd /ro" + "ot/x\n"}, "one machine"),
        ({"docs/x.md": "ssh 192.168" + ".0.1\n"}, "private address"),
        ({"docs/x.md": "http://pypi.inter" + "nal/\n"}, "private host"),
        ({"docs/x.md": "TO" + "DO: write\n"}, "left behind"),
    ],
)
def test_files(tmp_path, changes, expected):
    found = messages(check_files, tmp_path, changes)
    assert any(expected in message for message in found), found


TYPE = "namespace refactor::test {\nstruct Tensor {\n    int x;\n};\n}  // namespace refactor::test\n"


@pytest.mark.parametrize(
    ("other", "count"),
    [
        (TYPE.replace("int", "long"), 1),
        (TYPE.replace("struct Tensor {", "struct Tensor final : Base {"), 1),
        (TYPE.replace("test", "other"), 0),
        (TYPE.replace("refactor::test", ""), 0),
        ("namespace refactor::test {\nstruct Tensor;\n}  // namespace refactor::test\n", 0),
        (TYPE.replace("struct", "namespace {\nstruct").replace("};", "};\n}  // namespace"), 0),
        (TYPE.replace("struct", "void f() {\n}\nstruct"), 1),
        (TYPE.replace("Tensor", "Tensor::Impl"), 0),
        (TYPE.replace("struct", 'auto text = R"x(\nstruct').replace("};", '};\n)x";'), 0),
        (TYPE.replace("struct", 'auto text = R"x(\n)x";\nstruct'), 1),
    ],
)
def test_types(tmp_path, other, count):
    found = messages(check_types, tmp_path, {"src/00common/src/a_test.cc": TYPE, "src/00common/src/b_test.cc": other})
    assert len(found) == count, found


def test_weak_symbols_are_found():
    listing = "0000 T entry\n0010 W std::max<float>\n     U memcpy\n0020 u table\n"
    assert isa_objects.weak_symbols(listing) == ["std::max<float>", "table"]


@pytest.mark.skipif(shutil.which("g++") is None or shutil.which("nm") is None, reason="needs g++ and nm")
def test_shared_inline_function_in_an_isa_object_is_found(tmp_path):
    source = tmp_path / "x_avx2.cc"
    source.write_text("inline __attribute__((noinline)) int shared() { return 1; }\nint entry() { return shared(); }\n")
    subprocess.run(["g++", "-c", str(source), "-o", str(tmp_path / "x_avx2.cc.o")], check=True)
    assert [message for message in isa_objects.check(tmp_path) if "shared()" in message]


def listing_of(name, *instructions):
    return f"0000 <{name}>:\n" + "".join(f"  {4 * i:x}:\t{text}\n" for i, text in enumerate(instructions))


def test_scalar_loops_are_found():
    scalar = ["mov (%rsi),%eax", "imul (%rdx),%eax", "mov %eax,(%rdi)", "add $4,%rdi", "jne 0", "ret"]
    listing = "\n".join(
        [
            listing_of("a::binary_loop<int, int, a::MulF>(long)", *scalar),
            listing_of("a::unary_loop<int, int, a::NegF>(long)", "vpsubd (%rsi),%zmm0,%zmm1", *scalar),
            listing_of("a::unary_loop<int, int, a::AbsF>(long)", "mov %rsi,%rdx", "jmp memcpy"),
            listing_of("a::exact_binary_loop<int, int, a::DivF>(long)", *scalar),
        ]
    )
    assert isa_objects.scalar_loops(listing) == ["a::binary_loop<int, int, a::MulF>(long)"]


@pytest.mark.skipif(shutil.which("g++") is None or shutil.which("objdump") is None, reason="needs g++ and objdump")
def test_scalar_loops_of_an_object_are_found(tmp_path):
    source = tmp_path / "x.cc"
    source.write_text(
        "namespace a { template <class T> __attribute__((noinline)) void unary_loop(T* p, int n) {\n"
        "    for (int i = 0; i < n; ++i) p[i] = -p[i];\n}\n}\n"
        "void entry(int* p, int n) { a::unary_loop<int>(p, n); }\n"
    )
    for options, expected in (("-O1", 1), ("-O3 -mavx2", 0)):
        command = ["g++", *options.split(), "-c", str(source), "-o", str(tmp_path / "tile_avx2.cc.o")]
        subprocess.run(command, check=True)
        assert len(isa_objects.check_loops(tmp_path)) == expected


@pytest.mark.skipif(shutil.which("clang-tidy") is None, reason="clang-tidy is installed by `make lint`")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("int good_name() { return 0; }\n", ""),
        ("int BadName() { return 0; }\n", "identifier-naming"),
        ("class Good {\n    int bad = 0;\n};\n", "identifier-naming"),
        ("int long_one() {\n" + "    // line\n" * 80 + "    return 0;\n}\n", "function-size"),
    ],
)
def test_tidy(tmp_path, code, expected):
    shutil.copy(ROOT / ".clang-tidy", tmp_path)
    source = tmp_path / "x.cc"
    source.write_text(code)
    (tmp_path / "compile_commands.json").write_text(
        f'[{{"directory": "{tmp_path}", "file": "{source}", "command": "c++ -c {source}"}}]'
    )
    _, output = tidy.run(str(shutil.which("clang-tidy")), tmp_path, str(source))
    assert (expected in output) if expected else not output


@pytest.fixture
def tidy_tree(tmp_path):
    """Source `x.cc`, which includes `x.h`, and a compilation database with a precompiled header."""
    source, header, rules = tmp_path / "x.cc", tmp_path / "x.h", tmp_path / ".clang-tidy"
    source.write_text('#include "x.h"\nint good_name() { return shared(); }\n')
    header.write_text("int shared();\n")
    shutil.copy(ROOT / ".clang-tidy", rules)
    command = f"c++ -I{tmp_path} -Winvalid-pch -include {tmp_path}/cmake_pch.hxx -c {source}"
    database = [{"directory": str(tmp_path), "file": str(source), "command": command}]
    (tmp_path / "compile_commands.json").write_text(json.dumps(database))
    return source, header, rules


@pytest.mark.skipif(shutil.which("clang-tidy") is None, reason="clang-tidy is installed by `make lint`")
def test_tidy_finds_what_a_precompiled_header_hides(tmp_path, tidy_tree):
    source, _, _ = tidy_tree
    (tmp_path / "cmake_pch.hxx").write_text("#include <vector>\n")
    source.write_text("std::vector<int> numbers();\n")
    _, output = tidy.run(str(shutil.which("clang-tidy")), tidy.without_precompiled(tmp_path), str(source))
    assert "std" in output


@pytest.mark.skipif(shutil.which("clang-tidy") is None, reason="clang-tidy is installed by `make lint`")
@pytest.mark.parametrize("changed", [None, 0, 1, 2])
def test_tidy_knows_again_what_was_clean_until_it_changes(tmp_path, tidy_tree, changed):
    clang_tidy = str(shutil.which("clang-tidy"))
    database = tidy.without_precompiled(tmp_path)
    clean = tidy.Clean(clang_tidy, database, tidy_tree[2])
    before = clean.digest(str(tidy_tree[0]))
    clean.known[str(tidy_tree[0])] = before
    clean.save()
    if changed is not None:
        tidy_tree[changed].write_text(tidy_tree[changed].read_text() + "\n")
    again = tidy.Clean(clang_tidy, database, tidy_tree[2])
    assert (again.known[str(tidy_tree[0])] == again.digest(str(tidy_tree[0]))) == (changed is None)


def test_run_returns_an_error_for_a_bad_tree(tmp_path):
    messages(check_files, tmp_path, {"src/00common/src/BadName.cc": "int x;\n"})
    result = subprocess.run(
        [sys.executable, str(ROOT / "tools/lint/run.py"), str(tmp_path)], capture_output=True, check=False
    )
    assert result.returncode == 1
    assert b"snake_case" in result.stdout
