# SPDX-License-Identifier: Apache-2.0
# awk -v shell=bash|zsh -v help=JSON -v options=JSON -f tables.awk -f completion.awk TEMPLATE
# prints TEMPLATE with the tables in place of its line "@tables@".

function quoted(text)
{
    gsub(/'/, "'\\''", text)
    return "'" text "'"
}

# A case of the function that both shells look up in.
function row(name, words)
{
    print "    " quoted(name) ") REPLY=" quoted(words) " ;;"
}

function names_of(path,    i, list)
{
    for (i = 0; i < V[path ".n"]; i++)
        list = list (i ? " " : "") V[path "." i ".name"]
    return list
}

function lookup(    i, o, keys)
{
    print "_cadre_table() {"
    print "    REPLY="
    print "    case $* in"
    row("commands", names_of("commands") " " list_of("plugins"))
    for (i = 0; i < V["options.n"]; i++) {
        o = "options." i
        keys = keys (i ? " " : "") V[o ".key"]
        if (V[o ".type"] == "bool")
            row("values " V[o ".key"], "yes no")
        else if (V[o ".choices.n"])
            row("values " V[o ".key"], list_of(o ".choices"))
    }
    row("keys", keys)
    if (shell == "bash")
        for (i = 0; i < V["commands.n"]; i++)
            command_rows("commands." i)
    print "    esac"
    print "}"
}

# ---- bash: more rows of the lookup ----

function command_rows(c,    i, name, o)
{
    name = V[c ".name"]
    row("options " name, names_of(c ".options") " --help")
    if ((c ".kind") in V)
        row("kind " name, V[c ".kind"])
    for (i = 0; i < V[c ".options.n"]; i++) {
        o = c ".options." i
        if ((o ".kind") in V)
            row("kind " name " " V[o ".name"], V[o ".kind"])
        if ((o ".choices.n") in V)
            row("choices " name " " V[o ".name"], list_of(o ".choices"))
    }
}

# ---- zsh: the specifications of _arguments ----

function bracketed(text)
{
    gsub(/\\/, "\\\\", text)
    gsub(/\[/, "\\[", text)
    gsub(/\]/, "\\]", text)
    return text
}

function action(path,    kind)
{
    kind = V[path ".kind"]
    if (kind == "choice")
        return "(" list_of(path ".choices") ")"
    return kind == "text" ? " " : "_cadre_" kind
}

function message(text)
{
    gsub(/:/, "\\:", text)
    return text
}

function specification(o)
{
    return quoted((V[o ".repeats"] == "true" ? "*" : "") V[o ".name"] \
        ((o ".argument") in V ? "=" : "") "[" bracketed(V[o ".help"]) "]" \
        ((o ".argument") in V ? ":" message(V[o ".argument"]) ":" action(o) : ""))
}

function arguments(    i, j, c)
{
    print "_cadre_summaries() {"
    print "    reply=("
    for (i = 0; i < V["commands.n"]; i++) {
        c = "commands." i
        print "        " quoted(V[c ".name"] ":" message(V[c ".summary"]))
    }
    for (i = 0; i < V["plugins.n"]; i++)
        print "        " quoted(V["plugins." i] ":of the plugin " V["plugins." i])
    print "    )"
    print "}"
    print ""
    print "_cadre_specifications() {"
    print "    reply=('(- *)--help[print a summary of the options]')"
    print "    case $1 in"
    for (i = 0; i < V["commands.n"]; i++) {
        c = "commands." i
        print "    " V[c ".name"] ")"
        print "        reply+=("
        for (j = 0; j < V[c ".options.n"]; j++)
            print "            " specification(c ".options." j)
        if ((c ".kind") in V)
            print "            " quoted((V[c ".most"] > 1 ? "*" : "") ":" \
                message(V[c ".argument"]) ":" action(c))
        print "        )"
        print "        ;;"
    }
    print "    esac"
    print "}"
}

$0 == "@tables@" {
    lookup()
    if (shell == "zsh") {
        print ""
        arguments()
    }
    next
}

{ print }

END { exit failed }
