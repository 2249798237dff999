# SPDX-License-Identifier: Apache-2.0
# Reads what the preprocessor makes of the public headers (gcc -E -P) and prints a C program
# that prints the layout of every struct of the ABI: size, then each member's offset, size and
# declaration, so that a function's changed parameters show too.
{ text = text " " $0 }

function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

# The name that a declarator declares: of (*name)(...), else the last word before [...].
function name_of(d) {
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

# Members of one declaration: `uint32_t a, b` declares two; commas inside brackets do not count.
function members(tag, decl,    i, c, depth, part) {
    for (i = 1; i <= length(decl); i++) {
        c = substr(decl, i, 1)
        depth += (c == "(" || c == "[") - (c == ")" || c == "]")
        if (c == "," && depth == 0) {
            member(tag, part)
            part = ""
        } else {
            part = part c
        }
    }
    member(tag, part)
}

function member(tag, d,    n) {
    gsub(/[ \t]+/, " ", d)
    d = trim(d)
    n = name_of(d)
    if (n != "")
        printf "    MEMBER(%s, %s, \"%s\");\n", tag, n, d
}

function body(tag, inside,    n, part, i) {
    printf "    STRUCT(%s);\n", tag
    n = split(inside, part, ";")
    for (i = 1; i <= n; i++)
        if (trim(part[i]) != "")
            members(tag, part[i])
}

END {
    print "#include <stddef.h>\n#include <stdio.h>\n#include <cadre/helpers.h>"
    print "#define STRUCT(t) printf(\"struct %s: %zu bytes\\n\", #t, sizeof(struct t))"
    print "#define MEMBER(t, m, d) \\"
    print "    printf(\"    %4zu, %3zu bytes: %s\\n\", offsetof(struct t, m), sizeof ((struct t *)0)->m, d)"
    print "int main(void)\n{"
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
    print "    return 0;\n}"
}
