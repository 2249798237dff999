# SPDX-License-Identifier: Apache-2.0
# Reads what the preprocessor makes of the public headers (gcc -E -P, then gcc -E -dM) and prints
# a C program that prints the ABI as JSON: every struct with its size and the offset, size and
# declaration of each member, and every constant. One member and one constant a line.
/^#define CADRE_[A-Z0-9_]+ / { constant($2, substr($0, length($2) + 10)); next }
/^#/ { next }
{ text = text " " $0 }

function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

# Integers and strings; attributes, functions and names of symbols are none.
function constant(name, value)
{
    value = trim(value)
    if (value ~ /^"/)
        constants = constants "    STRING(" name ");\n"
    else if (value ~ /^(\(?-?[0-9]|UINT64_C)/)
        constants = constants "    NUMBER(" name ");\n"
}

# The name that a declarator declares: of (*name)(...), else the last word before [...].
function name_of(d)
{
    if (match(d, /\( *\* *[A-Za-z_0-9]+ *\)/)) {
        d = substr(d, RSTART, RLENGTH)
        gsub(/[^A-Za-z_0-9]/, "", d)
        return d
    }
    sub(/\[.*$/, "", d)
    d = trim(d)
    sub(/^.*[^A-Za-z_0-9]/, "", d)
    return d
}

# Members of one declaration: `uint32_t a, b` declares two; commas in brackets do not count.
function members(tag, decl,    i, c, depth, part, base)
{
    for (i = 1; i <= length(decl); i++) {
        c = substr(decl, i, 1)
        depth += (c == "(" || c == "[") - (c == ")" || c == "]")
        if (c == "," && depth == 0) {
            base = base == "" ? base_of(part) : base
            member(tag, part)
            part = base " "
        } else {
            part = part c
        }
    }
    member(tag, part)
}

# "uint32_t" of "uint32_t a"
function base_of(d)
{
    d = trim(d)
    sub(/[* ]*[A-Za-z_0-9]+(\[[^]]*\])*$/, "", d)
    return d
}

function member(tag, d,    n)
{
    gsub(/[ \t]+/, " ", d)
    d = trim(d)
    n = name_of(d)
    if (n != "")
        structs = structs "    MEMBER(" tag ", " n ", \"" d "\");\n"
}

function body(tag, inside,    n, part, i)
{
    structs = structs "    STRUCT(" tag ");\n"
    n = split(inside, part, ";")
    for (i = 1; i <= n; i++)
        if (trim(part[i]) != "")
            members(tag, part[i])
}

END {
    while (match(text, /struct cadre_[a-z0-9_]+ *\{[^{}]*\}/)) {
        found = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        tag = found
        sub(/^struct +/, "", tag)
        sub(/ *\{.*$/, "", tag)
        sub(/^[^{]*\{/, "", found)
        sub(/\}$/, "", found)
        body(tag, found)
    }
    print "#include <stddef.h>\n#include <stdio.h>\n#include <cadre/strategy.h>"
    print "static const char *open_struct = \"\", *open_member, *open_constant = \"\";"
    print "#define STRUCT(t) (printf(\"%s\\n    {\\\"name\\\": \\\"%s\\\", \\\"size\\\": %zu, \" \\"
    print "    \"\\\"members\\\": [\", open_struct, #t, sizeof(struct t)), \\"
    print "    open_struct = \"\\n    ]},\", open_member = \"\")"
    print "#define MEMBER(t, m, d) (printf(\"%s\\n      {\\\"name\\\": \\\"%s\\\", \\\"offset\\\": %zu, \" \\"
    print "    \"\\\"size\\\": %zu, \\\"declaration\\\": \\\"%s\\\"}\", open_member, #m, \\"
    print "    offsetof(struct t, m), sizeof ((struct t *)0)->m, d), open_member = \",\")"
    print "#define NUMBER(c) (printf(\"%s\\n    \\\"%s\\\": %lld\", open_constant, #c, \\"
    print "    (long long)(c)), open_constant = \",\")"
    print "#define STRING(c) (printf(\"%s\\n    \\\"%s\\\": \\\"%s\\\"\", open_constant, #c, c), \\"
    print "    open_constant = \",\")"
    print "int main(void)\n{"
    print "    printf(\"{\\n  \\\"abi\\\": \\\"%u.%u\\\",\\n  \\\"pointer_bytes\\\": %zu,\\n  \" \\"
    print "           \"\\\"structs\\\": [\", CADRE_ABI_MAJOR, CADRE_ABI_MINOR, sizeof(void *));"
    printf "%s", structs
    print "    printf(\"\\n    ]}\\n  ],\\n  \\\"constants\\\": {\");"
    printf "%s", constants
    print "    printf(\"\\n  }\\n}\\n\");"
    print "    return 0;\n}"
}
