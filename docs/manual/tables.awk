# SPDX-License-Identifier: Apache-2.0
# What the program says of itself, for man.awk and completion.awk:
#   V["commands.0.name"], V["commands.n"]   `cadre help --json`, in the file `help`
#   V["options.0.key"], V["options.n"]      `cadre options --json`, in the file `options`

function refuse(what)
{
    print "manual: error: " what >"/dev/stderr"
    failed = 1
    exit 1
}

# ---- JSON ----

function peek()
{
    sub(/^[ \t\r\n]+/, "", TEXT)
    return substr(TEXT, 1, 1)
}

function token(    t)
{
    peek()
    if (!match(TEXT, /^"([^"\\]|\\.)*"/) && !match(TEXT, /^[][{}:,]/) &&
        !match(TEXT, /^[-+.0-9a-zA-Z]+/))
        refuse("no JSON: '" substr(TEXT, 1, 40) "'")
    t = substr(TEXT, 1, RLENGTH)
    TEXT = substr(TEXT, RLENGTH + 1)
    return t
}

function plain(string,    out, c)
{
    string = substr(string, 2, length(string) - 2)
    while (match(string, /\\./)) {
        c = substr(string, RSTART + 1, 1)
        if (c == "u") {
            if (substr(string, RSTART + 2, 4) != "000a")
                refuse("an escape \\u in a table: write the character itself")
            out = out substr(string, 1, RSTART - 1) "\n"
            string = substr(string, RSTART + 6)
            continue
        }
        out = out substr(string, 1, RSTART - 1) (c == "n" ? "\n" : c == "t" ? "\t" : c)
        string = substr(string, RSTART + 2)
    }
    return out string
}

# null is left out, so `path in V` asks for it.
function value(path,    t, n)
{
    t = token()
    if (t == "{") {
        while (peek() != "}") {
            if (peek() == ",")
                token()
            t = plain(token())
            token()
            value(path == "" ? t : path "." t)
        }
        token()
    } else if (t == "[") {
        n = 0
        while (peek() != "]") {
            if (peek() == ",")
                token()
            value(path "." n++)
        }
        token()
        V[path ".n"] = n
    } else if (t != "null") {
        V[path] = t ~ /^"/ ? plain(t) : t
    }
}

function load(file, path,    line)
{
    TEXT = ""
    while ((getline line <file) > 0)
        TEXT = TEXT line "\n"
    close(file)
    value(path)
}

function list_of(path,    i, list)
{
    for (i = 0; i < V[path ".n"]; i++)
        list = list (i ? " " : "") V[path "." i]
    return list
}

BEGIN {
    load(help, "")
    load(options, "options")
    if (!V["commands.n"] || !V["options.n"])
        refuse("no commands, or no options")
}
