# SPDX-License-Identifier: Apache-2.0
# awk -v out=DIR -v date=2026-01-31 -v help=JSON -v options=JSON -v configuration=MD
#     -v examples=TSV -v program=CADRE -v plugindir=... -v confdir=... -f tables.awk -f man.awk
# writes DIR/cadre.1, a DIR/cadre-COMMAND.1 for each command, also those of plugins, and
# DIR/cadre.conf.5.

function roff(text)
{
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/`/, "\\(ga", text)
    gsub(/'/, "\\(aq", text)
    sub(/^\./, "\\\\\\&.", text)
    return text
}

# "CONF [--out DIR] | --list": options in bold, what stands for a value in italics.
function synopsis(text,    word, n, i, line)
{
    n = split(text, word, " ")
    for (i = 1; i <= n; i++)
        line = line (i > 1 ? " " : "") marked(word[i])
    return line
}

function marked(word,    done)
{
    while (match(word, /--[a-z-]+|[A-Z][A-Z.=]*/)) {
        done = done roff(substr(word, 1, RSTART - 1)) \
            (substr(word, RSTART, 1) == "-" ? "\\fB" : "\\fI") \
            roff(substr(word, RSTART, RLENGTH)) "\\fR"
        word = substr(word, RSTART + RLENGTH)
    }
    return done roff(word)
}

function begin(name, section, what)
{
    file = out "/" name "." section
    printf "" >file
    put(".\\\" Made from the tables of the program: change core/cli/ or core/config/.")
    put(".TH " toupper(roff(name)) " " section " \"" date "\" \"cadre " V["version"] \
        "\" \"Cadre\"")
    put(".nh")
    put(".ad l")
    put(".SH NAME")
    put(roff(name) " \\- " roff(what))
}

function put(line)
{
    print line >file
}

# Paragraphs, divided by empty lines.
function paragraphs(text,    line, n, i)
{
    n = split(text, line, "\n")
    for (i = 1; i <= n; i++)
        put(line[i] == "" ? ".PP" : roff(line[i]))
}

function item(head, text)
{
    put(".TP")
    put(head)
    put(roff(text))
}

# A file's name, which may be longer than a line: it can be broken behind each slash.
function path(name)
{
    name = roff(name)
    gsub(/\//, "/\\:", name)
    return "\\fI" name "\\fR"
}

function sentence(text)
{
    return toupper(substr(text, 1, 1)) substr(text, 2) (text ~ /[.?]$/ ? "" : ".")
}

# ---- parts of several pages ----

function statuses(    i)
{
    put(".SH EXIT STATUS")
    for (i = 0; i < V["exit_status.n"]; i++)
        item("\\fB" V["exit_status." i ".code"] "\\fR",
            sentence(V["exit_status." i ".meaning"]))
}

# Rows of docs/configuration.md: | `NAME`, `NAME` | text |
function environment(    line, cell)
{
    put(".SH ENVIRONMENT")
    while ((getline line <configuration) > 0)
        if (line ~ /^\| `[A-Z_]+`/) {
            split(line, cell, " \\| ")
            sub(/^\| /, "", cell[1])
            sub(/ \|$/, "", cell[2])
            if (cell[2] !~ /^`/)
                cell[2] = sentence(cell[2])
            gsub(/`/, "", cell[1])
            gsub(/`/, "", cell[2])
            item("\\fB" roff(cell[1]) "\\fR", cell[2])
        }
    close(configuration)
}

# The examples of a command: NAME TAB command line TAB what it does.
function example(name,    line, field, n)
{
    while ((getline line <examples) > 0)
        if (split(line, field, "\t") == 3 && field[1] == name) {
            put(n++ ? ".PP" : ".SH EXAMPLES")
            put(roff(sentence(field[3])))
            put(".PP")
            put(".RS 4")
            put(".nf")
            put(roff(field[2]))
            put(".fi")
            put(".RE")
        }
    close(examples)
}

# ---- pages ----

function command_page(c,    name, o, i, head, text)
{
    name = V[c ".name"]
    begin("cadre-" name, 1, V[c ".summary"])
    put(".SH SYNOPSIS")
    put("\\fBcadre " roff(name) "\\fR " synopsis(V[c ".synopsis"]))
    put(".SH DESCRIPTION")
    put(roff(sentence(V[c ".summary"])))
    if (V[c ".kind"] == "conf") {
        put(".PP")
        put("\\fICONF\\fR is an ini file, described in")
        put(".BR cadre.conf (5).")
    }
    if ((c ".details") in V) {
        put(".PP")
        paragraphs(V[c ".details"])
    }
    put(".SH OPTIONS")
    for (i = 0; i < V[c ".options.n"]; i++) {
        o = c ".options." i
        head = "\\fB" roff(V[o ".name"]) "\\fR"
        if ((o ".argument") in V)
            head = head " \\fI" roff(V[o ".argument"]) "\\fR"
        text = sentence(V[o ".help"])
        if (V[o ".repeats"] == "true")
            text = text " May be given several times."
        item(head, text)
    }
    item("\\fB\\-\\-help\\fR", "Print a summary of these options.")
    statuses()
    example(name)
    put(".SH SEE ALSO")
    put(".BR cadre (1),")
    put(".BR cadre.conf (5)")
}

# A plugin tells its command as a text, laid out by itself.
function plugin_page(name,    command, line, lines)
{
    begin("cadre-" name, 1, "the command of the plugin " name)
    put(".SH SYNOPSIS")
    put("\\fBcadre " roff(name) "\\fR \\fIARGUMENT\\fR...")
    put(".SH DESCRIPTION")
    put(".nf")
    command = "'" program "' " name " --help"
    for (; (command | getline line) > 0; lines++)
        put(roff(line))
    if (close(command) != 0 || lines == 0)
        refuse("no text of '" command "'")
    put(".fi")
    statuses()
    put(".SH SEE ALSO")
    put(".BR cadre (1)")
}

function main_page(    i, c)
{
    begin("cadre", 1, "trains transformers under swappable parallelism strategies")
    put(".SH SYNOPSIS")
    put("\\fBcadre\\fR \\fICOMMAND\\fR [\\fIARGUMENT\\fR]...")
    put(".br")
    put("\\fBcadre\\fR \\fB\\-\\-help\\fR | \\fB\\-\\-version\\fR")
    put(".SH DESCRIPTION")
    put("A run is an ini file, described in")
    put(".BR cadre.conf (5).")
    put("Its line \\fBstrategy.stack\\fR names the parallelism strategy, a plugin: change that")
    put("line and the same model, data and seed train under another strategy.")
    put("Results go to standard output, everything else to standard error.")
    put(".SH COMMANDS")
    for (i = 0; i < V["commands.n"]; i++) {
        c = "commands." i
        put(".TP")
        put(".BR cadre\\-" roff(V[c ".name"]) " (1)")
        put(roff(sentence(V[c ".summary"])))
    }
    for (i = 0; i < V["plugins.n"]; i++)
        item(".BR cadre\\-" roff(V["plugins." i]) " (1)",
            "The command of the plugin " V["plugins." i] ".")
    statuses()
    environment()
    put(".SH FILES")
    item(path(plugindir), "The strategies that came with the program.")
    item(path("~/.local/share/cadre/plugins"), "Those of the user.")
    item(path(confdir), "Ini files that run as they stand.")
    put(".SH SEE ALSO")
    put(".BR cadre.conf (5)")
}

function conf_page(    i, o, key, section, last, j, others)
{
    begin("cadre.conf", 5, "the ini file of a run of cadre")
    put(".SH DESCRIPTION")
    put("Every option has a default, and an empty file is a valid one.")
    put("An unknown section or key is an error that names the nearest one, and a value of the")
    put("wrong type, out of its range or not among its choices is refused.")
    put("Later ones win: the default, the file named by \\fBrun.extends\\fR, the file itself,")
    put("the environment, \\fB\\-\\-set\\fR \\fIsection.key=value\\fR, and in a comparison the")
    put("section of the run.")
    put(".PP")
    put("The sections of plugins are those of the strategies that came with the program.")
    for (i = 0; i < V["options.n"]; i++) {
        o = "options." i
        key = V[o ".key"]
        section = substr(key, 1, index(key, ".") - 1)
        if (section != last)
            put(".SH [" roff(section) "]")
        last = section
        item("\\fB" roff(substr(key, length(section) + 2)) "\\fR", sentence(V[o ".help"]))
        put(roff(sentence(V[o ".expected"] "; default " \
            (V[o ".default"] == "" ? "is empty" : V[o ".default"]))))
        others = ""
        for (j = 0; j < V[o ".elsewhere.n"]; j++)
            others = others (j ? ", " : "") V[o ".elsewhere." j ".name"] \
                ((o ".elsewhere." j ".of") in V ? " (" V[o ".elsewhere." j ".of"] ")" : "")
        if (others != "")
            put(roff("Elsewhere: " others "."))
    }
    put(".SH [run:\\fINAME\\fR]")
    item("\\fIsection.key\\fR", "Another value of that option, for one run of a comparison.")
    put(".SH SEE ALSO")
    put(".BR cadre (1),")
    put(".BR cadre\\-options (1)")
}

BEGIN {
    main_page()
    for (i = 0; i < V["commands.n"]; i++)
        command_page("commands." i)
    for (i = 0; i < V["plugins.n"]; i++)
        plugin_page(V["plugins." i])
    conf_page()
    exit failed
}
