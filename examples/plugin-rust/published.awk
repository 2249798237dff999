# SPDX-License-Identifier: Apache-2.0
# abi-0.10.json as lines "STRUCT MEMBER OFFSET SIZE", "STRUCT SIZE" and "CONSTANT VALUE": it has
# one struct, member or constant a line.
function field(name,    found)
{
    if (!match($0, "\"" name "\": (\"[^\"]*\"|[-0-9]+)"))
        return ""
    found = substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4)
    gsub(/"/, "", found)
    return found
}

/"members"/ { tag = field("name"); print tag, field("size"); next }
/"offset"/ { print tag, field("name"), field("offset"), field("size"); next }
/^ *"CADRE_/ { gsub(/[",:]/, ""); print $1, $2 }
