/* SPDX-License-Identifier: Apache-2.0 */
/* The strategy plugin ABI, version 0.10 (0.x is free to change between minors).
 *
 * A strategy owns placement and communication: which rank holds which shard, and when
 * it is sent. The core owns the mesh, communicators and their order, loss scaling,
 * global norm and clipping, the optimizer loop, random numbers and checkpoint files.
 *
 * Life of an instance (one per rank; several may live in one process):
 *
 *   entry -> create -> plan (pure, may run often; --dry-run stops here)
 *         -> place (in the launching process only; its instances end here)
 *         -> [ranks agree on build, plugins, options and plan] -> bind
 *         -> { step -> sync(GRADS) -> [norm, clip, optimizer] -> sync(UPDATE)
 *              -> sync(PARAMS) -> sync(METRICS) }*
 *         -> sync(DRAIN) -> destroy
 *
 *   step:  runs in role order; each plugin calls next->run, and the SCHEDULE is last.
 *          The SCHEDULE calls forward and backward of cadre.model. During these the
 *          core raises on_block, on_grad and on_redistribute.
 *   DATA:  among the plugins of this role the order is that of reduction levels
 *          (`reduces` of <cadre/plan.h>), never that of strategy.stack.
 *
 * Versioning: `struct_size` is the first member of every struct that crosses the
 * boundary (but cadre_buf) and is set with sizeof; a reader uses the smaller of the two
 * sizes. New fields go to the end. A new function slot is optional and guarded by
 * CADRE_HAS. No enums, bit-fields, long, bool, varargs or unions cross the boundary.
 *
 * Threads: [main] the thread that created the instance, before the rank starts or after
 * it stops. [exec] the one thread that drives this rank, never two calls at once (where
 * the rank is a thread, it is also [main]). [any] any thread; must not block.
 *
 * A plugin does not link against the host; it reaches the host through the tables of
 * <cadre/services.h>. It must not exit, abort, longjmp, set signal handlers or change
 * the environment. A callback that returns an error should first call host->fail; the
 * core names plugin, callback and step of one that does not, of one that crashes, and
 * of one that does not return within comm.timeout. */
#ifndef CADRE_STRATEGY_H
#define CADRE_STRATEGY_H

#include <cadre/command.h>
#include <cadre/events.h>
#include <cadre/place.h>
#include <cadre/plan.h>
#include <cadre/services.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CADRE_ABI_MAJOR 0u
#define CADRE_ABI_MINOR 10u
#define CADRE_MAGIC UINT64_C(0x3145524441433ec3)
#define CADRE_ENTRY cadre_plugin_entry_1
#define CADRE_ENTRY_NAME "cadre_plugin_entry_1"

/* True if the other side's struct includes member m and m is not NULL or 0. */
#define CADRE_HAS(p, m)                                                                \
    ((p) && (p)->struct_size >= offsetof(__typeof__(*(p)), m) + sizeof((p)->m) &&      \
     (p)->m)

/* ---- options: static data, readable without creating anything ---- */
#define CADRE_OPTION_BOOL 1u
#define CADRE_OPTION_I64 2u
#define CADRE_OPTION_F64 3u
#define CADRE_OPTION_STR 4u
#define CADRE_OPTION_ENUM 5u /* choices: "a, b, c" */
#define CADRE_OPTION_BYTES 6u /* 64k, 25M, 1G */

struct cadre_option {
    uint32_t struct_size;
    uint32_t type;
    /* [a-z0-9_]+, in the ini section of the plugin's short name; a section NAME@AXIS
     * is for that instance alone */
    const char *key;
    const char *def; /* default, in ini spelling */
    const char *choices; /* ENUM only, else NULL */
    const char *help; /* one line */
    double min, max; /* numbers only; both 0: no limits */
    uint32_t flags; /* 0 */
    uint32_t pad_;
};

/* ---- the plugin ---- */
struct cadre_self; /* the plugin's instance, opaque to the host */

struct cadre_strategy_ops {
    uint32_t struct_size;
    uint32_t pad_;
    /* create, plan, bind, sync and destroy are required.
     * [main] On failure create has released everything; after success destroy is called
     * once, with the same instance. */
    cadre_status (*create)(const struct cadre_create *, struct cadre_self **out);
    /* [main] plan is pure. place (optional) is called in the launching process before
     * any rank starts, once per rank, on an instance of its own. */
    cadre_status (*plan)(struct cadre_self *, const struct cadre_plan *);
    cadre_status (*place)(struct cadre_self *, const struct cadre_place *);
    cadre_status (*bind)(struct cadre_self *, const struct cadre_bind *); /* [main] */
    /* [exec] Optional; NULL calls next. On return every on_grad of this rank has been
     * raised; communication may still be in flight. */
    cadre_status (*step)(struct cadre_self *, const struct cadre_step *,
                         const struct cadre_next *next);
    cadre_status (*sync)(struct cadre_self *, const struct cadre_sync *); /* [exec] */
    /* [exec] The following are optional. */
    cadre_status (*on_block)(struct cadre_self *, const struct cadre_block_ev *);
    /* of a plugin that reduces it is required */
    cadre_status (*on_grad)(struct cadre_self *, struct cadre_grad_ev *);
    cadre_status (*on_redistribute)(struct cadre_self *,
                                    const struct cadre_redistribute_ev *);
    cadre_status (*state)(struct cadre_self *, const struct cadre_state_sink *);
    /* [any] a rank failed; must not block */
    void (*abort)(struct cadre_self *, const struct cadre_end *);
    void (*destroy)(struct cadre_self *, const struct cadre_end *); /* [main] */
    /* [exec] OPTIMIZER, required there: struct cadre_update_ev */
    cadre_status (*update)(struct cadre_self *, const struct cadre_update_ev *);
    /* With a claim of wire.codec. [main, exec] Bytes of n encoded elements; a function
     * of its arguments. 0: this kind is sent as it is. */
    uint64_t (*wire_bytes)(struct cadre_self *, uint32_t kind, uint32_t dtype,
                           uint64_t n);
    cadre_status (*wire)(struct cadre_self *,
                         const struct cadre_wire_ev *); /* [exec] */
};

#define CADRE_ROLE_PLACEMENT 1u /* mig: where ranks run; takes no part in a step */
#define CADRE_ROLE_SCHEDULE 2u /* pipeline; at most one, else sequential */
#define CADRE_ROLE_INTRA 3u /* tensor: inside a layer */
#define CADRE_ROLE_DATA 4u /* ddp, zero, hsdp, diloco */
#define CADRE_ROLE_OBSERVER 5u
/* muon: named by optim.name, not in the stack; it has no axis. At most one */
#define CADRE_ROLE_OPTIMIZER 6u

/* A service that a plugin needs, and where in its instance the table pointer goes. */
struct cadre_service {
    const char *id; /* NULL ends the list */
    uint32_t offset; /* in struct cadre_self, of the pointer to the table */
    uint32_t bytes; /* minimal size of the table: to the last function called */
};

/* A static const object of the plugin; CADRE_PLUGIN of <cadre/helpers.h> makes it. */
struct cadre_plugin {
    uint64_t magic;
    uint32_t struct_size;
    uint16_t abi_major, abi_minor;
    uint16_t min_host_minor;
    uint16_t pad_;
    uint32_t role;
    const char *id; /* "org.cadre.ddp": unique; the last part is its short name */
    const char *version; /* of the plugin */
    const char *summary; /* one line */
    const char *build; /* compiler and flags, or NULL */
    /* the mesh axis that it owns: "dp", "pp", "tp", "mig"; strategy.stack may name
     * another (gossip@site:2) */
    const char *axis;
    const struct cadre_option *options;
    uint32_t n_options;
    uint32_t option_stride; /* sizeof(struct cadre_option) of the plugin */
    /* Services the plugin requires, or NULL. A host that lacks one, or whose table is
     * too small, refuses the plugin before create. */
    const struct cadre_service *services;
    const struct cadre_strategy_ops *ops;
    /* [main] Optional: implements `cadre NAME ARGS`, where NAME is the plugin's short
     * name. It may read the environment and query devices: no rank is running. */
    cadre_status (*command)(const struct cadre_command *);
};

#define CADRE_EXPORT __attribute__((visibility("default")))

/* The only exported symbol. Pure: must not allocate, read the environment or open a
 * device. */
CADRE_EXPORT const struct cadre_plugin *CADRE_ENTRY(void);

/* frozen layouts: a reorder or a widened field fails to compile */
#ifdef __cplusplus
#define CADRE_FROZEN(c) static_assert(c, #c)
#else
#define CADRE_FROZEN(c) _Static_assert(c, #c)
#endif
#if UINTPTR_MAX == UINT64_MAX
CADRE_FROZEN(offsetof(struct cadre_plugin, ops) == 88);
CADRE_FROZEN(offsetof(struct cadre_plugin, command) == 96);
CADRE_FROZEN(offsetof(struct cadre_command, refuse) == 40);
CADRE_FROZEN(offsetof(struct cadre_strategy_ops, destroy) == 96);
CADRE_FROZEN(offsetof(struct cadre_plan, opt_matrix) == 216);
CADRE_FROZEN(sizeof(struct cadre_post) == 32);
CADRE_FROZEN(sizeof(struct cadre_service) == 16);
CADRE_FROZEN(sizeof(struct cadre_buf) == 24);
#endif

#ifdef __cplusplus
}
#endif
#endif
