/* SPDX-License-Identifier: Apache-2.0 */
/* Parse strategy.stack: "pipeline:2, zero:2" to a list of plugins and mesh sizes. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/foreign.h"
#include "core/plugin/plugin.h"
#include "core/plugin/stack.h"

#define MAX_RANKS 65536

/* One part of the text, without the blanks around it. */
struct part {
    const char *text;
    int len; /* for "%.*s" */
};

static struct part part_at(const char *text)
{
    text += strspn(text, " \t");
    size_t len = strcspn(text, ",");
    while (len && isblank((unsigned char)text[len - 1]))
        len--;
    return (struct part){text, (int)len};
}

/* Split "name:size" at the last ':' that no '/' follows. */
static struct part take_size(struct part *part)
{
    for (int i = part->len - 1; i >= 0 && part->text[i] != '/'; i--) {
        if (part->text[i] == ':') {
            struct part size = {part->text + i + 1, part->len - i - 1};
            part->len = i;
            return size;
        }
    }
    return (struct part){NULL, 0};
}

/* Split "name@axis" at the last '@'. In a path it may be part of the file's name: there
 * only what can be an axis is one. */
static struct part take_axis(struct part *part)
{
    bool is_path = memchr(part->text, '/', (size_t)part->len) != NULL;
    char axis[CADRE_AXIS_CHARS] = "";
    for (int i = part->len - 1; i >= 0 && part->text[i] != '/'; i--) {
        if (part->text[i] != '@')
            continue;
        struct part found = {part->text + i + 1, part->len - i - 1};
        if ((size_t)found.len < sizeof axis)
            memcpy(axis, found.text, (size_t)found.len);
        if (is_path && !cadre_plugin_is_name(axis))
            break;
        part->len = i;
        return found;
    }
    return (struct part){NULL, 0};
}

static cadre_status parse_axis(struct part whole, struct part axis,
                               struct cadre_stack_entry *entry, struct cadre_error *err)
{
    if (!axis.text)
        return CADRE_OK;
    if ((size_t)axis.len < sizeof entry->axis) {
        memcpy(entry->axis, axis.text, (size_t)axis.len);
        entry->axis[axis.len] = 0;
    }
    if (!cadre_plugin_is_name(entry->axis))
        return cadre_fail(err, CADRE_E_INVALID,
                          "strategy.stack: '%.*s' has the axis '%.*s', expected a name "
                          "of at most %zu of [a-z0-9_], as in \"ddp@site:2\"",
                          whole.len > 200 ? 200 : whole.len, whole.text,
                          axis.len > 64 ? 64 : axis.len, axis.text,
                          sizeof entry->axis - 1);
    return CADRE_OK;
}

static cadre_status parse_size(struct part whole, struct part size, int *out,
                               struct cadre_error *err)
{
    *out = 0;
    if (!size.text || (size.len == 1 && size.text[0] == '*'))
        return CADRE_OK;
    int value = 0, i = 0;
    while (i < size.len && isdigit((unsigned char)size.text[i]) && value <= MAX_RANKS)
        value = value * 10 + (size.text[i++] - '0');
    if (i < size.len || size.len == 0 || value < 1 || value > MAX_RANKS ||
        size.text[0] == '0')
        return cadre_fail(err, CADRE_E_INVALID,
                          "strategy.stack: '%.*s' has the size '%.*s', expected a "
                          "number of ranks from 1 to %d, or '*'",
                          whole.len, whole.text, size.len, size.text, MAX_RANKS);
    *out = value;
    return CADRE_OK;
}

static cadre_status parse_name(struct part name, struct cadre_stack_entry *entry,
                               struct cadre_error *err)
{
    bool is_path = memchr(name.text, '/', (size_t)name.len) != NULL;
    char *to = is_path ? entry->path : entry->name;
    size_t room = is_path ? sizeof entry->path : sizeof entry->name;
    if ((size_t)name.len < room) {
        memcpy(to, name.text, (size_t)name.len);
        to[name.len] = 0;
    }
    const char *ours =
        is_path || cadre_plugin_is_name(to) ? NULL : cadre_foreign_strategy(to);
    if (ours)
        return cadre_fail(err, CADRE_E_INVALID,
                          "strategy.stack: there is no plugin '%s': %s", to, ours);
    if (is_path ? !*to : !cadre_plugin_is_name(to))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "strategy.stack: '%.*s' is not a plugin: expected a name of at "
            "most %zu of [a-z0-9_] or a path with '/', then '@' and an axis if it is "
            "another than the plugin's own, then ':' and a number of ranks, as in "
            "\"pipeline:2, zero:2\"",
            name.len > 200 ? 200 : name.len, name.text, sizeof entry->name - 1);
    return CADRE_OK;
}

static cadre_status parse_entry(const char *text, struct cadre_stack *stack,
                                struct cadre_error *err)
{
    struct part whole = part_at(text), name = whole, size = take_size(&name);
    struct part axis = take_axis(&name);
    if (stack->n == CADRE_MAX_STACK)
        return cadre_fail(err, CADRE_E_INVALID,
                          "strategy.stack: more than %d plugins, the first too many is "
                          "'%.*s'",
                          CADRE_MAX_STACK, whole.len, whole.text);
    if (whole.len == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "strategy.stack: part %d is empty: expected a plugin, as in "
                          "\"pipeline:2, zero:2\", or \"single\"",
                          stack->n + 1);
    struct cadre_stack_entry *entry = &stack->entry[stack->n];
    CADRE_TRY(parse_name(name, entry, err));
    CADRE_TRY(parse_axis(whole, axis, entry, err));
    CADRE_TRY(parse_size(whole, size, &entry->size, err));
    if (!strcmp(entry->name, "single") &&
        (axis.text || (size.text && entry->size != 1)))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "strategy.stack: '%.*s': single is one rank: write \"single\" "
            "alone, or ddp:N for N ranks",
            whole.len, whole.text);
    for (int i = 0; i < stack->n; i++)
        if (!strcmp(stack->entry[i].name, entry->name) &&
            !strcmp(stack->entry[i].path, entry->path) &&
            !strcmp(stack->entry[i].axis, entry->axis))
            return cadre_fail(
                err, CADRE_E_INVALID,
                "strategy.stack: '%.*s%s%s' is listed twice; name another "
                "axis for one of them, as in \"ddp:2, ddp@site:2\"",
                name.len, name.text, *entry->axis ? "@" : "", entry->axis);
    stack->n++;
    return CADRE_OK;
}

cadre_status cadre_stack_parse(const char *text, struct cadre_stack *out,
                               struct cadre_error *err)
{
    struct cadre_stack stack = {0};
    const char *part = text;
    bool single = false;
    do {
        CADRE_TRY(parse_entry(part, &stack, err));
        single |= !strcmp(stack.entry[stack.n - 1].name, "single");
        part += strcspn(part, ",");
    } while (*part++ == ',');
    if (single && stack.n > 1)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "strategy.stack: single must be the only entry, found '%s': take "
            "single or the other plugins out",
            text);
    if (single)
        memset(&stack, 0, sizeof stack);
    *out = stack;
    return CADRE_OK;
}

int cadre_stack_print(const struct cadre_stack_entry *entry, int size, char *out,
                      size_t bytes)
{
    return snprintf(out, bytes, "%s%s%s:%d", *entry->path ? entry->path : entry->name,
                    *entry->axis ? "@" : "", entry->axis, size);
}
