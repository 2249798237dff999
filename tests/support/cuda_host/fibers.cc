// SPDX-License-Identifier: Apache-2.0
// A block of CUDA threads on one thread of the host. Fibers run in turn until each of
// them waits or has ended. Waiting fibers are grouped by what they wait for, so that a
// barrier which can no longer be reached is detected at once.
#include "tests/support/cuda_host/fibers.h"

#include <stdio.h>
#include <stdlib.h>

#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define ASAN_FIBERS 1
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define TSAN_FIBERS 1
#endif

#if defined(__x86_64__)
// Twelve instructions where swapcontext makes two system calls.
extern "C" void cadre_host_switch(void **save, void *to);
__asm__(".text\n"
        ".globl cadre_host_switch\n"
        ".hidden cadre_host_switch\n"
        ".type cadre_host_switch,@function\n"
        "cadre_host_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size cadre_host_switch,.-cadre_host_switch\n");
#else
#include <ucontext.h>
#endif

namespace
{
const size_t STACK_BYTES = 128 << 10;
const size_t MOST_SHARED = 227 << 10;

enum state { READY, AT_BLOCK_BARRIER, AT_WARP, ENDED };

struct copy {
    void *to;
    const void *from;
    bool valid;
};

// A product of wgmma that was begun.
struct product {
    float (*d)[4];
    uint32_t a[4];
    const unsigned char *a_tile; // in place of a
    const unsigned char *b;
    bool across, add, is_bf16;
};

struct fiber {
    std::unique_ptr<unsigned char[]> stack;
#if defined(__x86_64__)
    void *sp = nullptr;
#else
    ucontext_t context;
#endif
    void *fake_stack = nullptr; // of AddressSanitizer
    void *tsan = nullptr;
    cadre_host::place place;
    enum state state = READY;
    std::vector<std::vector<copy>> copies; // groups; the last one is open
    std::vector<std::vector<product>> products; // the same
};

struct warp {
    unsigned size = 0, arrived = 0;
    uint64_t slot[32];
    float fragment[32][12];
    const void *row[32];
};

struct block {
    std::vector<fiber> fibers;
    std::vector<warp> warps;
    unsigned count = 0, live = 0, at_barrier = 0, current = 0;
    const std::function<void()> *body = nullptr;
    unsigned char *shared = nullptr;
#if defined(__x86_64__)
    void *scheduler = nullptr;
#else
    ucontext_t scheduler;
#endif
    const void *scheduler_stack = nullptr; // for AddressSanitizer
    size_t scheduler_bytes = 0;
    void *scheduler_tsan = nullptr;

    ~block()
    {
#ifdef TSAN_FIBERS
        for (fiber &f : fibers)
            if (f.tsan)
                __tsan_destroy_fiber(f.tsan);
#endif
    }
};

// A thread of the host keeps its stacks from launch to launch.
block &now()
{
    static thread_local block b;
    return b;
}

[[noreturn]] void fault(const char *what)
{
    const cadre_host::place &p = now().fibers[now().current].place;
    fprintf(stderr,
            "cuda_host: %s: block (%u,%u,%u), thread (%u,%u,%u), of %u threads %u "
            "live, %u at the barrier\n",
            what, p.block.x, p.block.y, p.block.z, p.thread.x, p.thread.y, p.thread.z,
            now().count, now().live, now().at_barrier);
    abort();
}

fiber &me()
{
    return now().fibers[now().current];
}

warp &my_warp()
{
    return now().warps[now().current / 32];
}

void to_scheduler(bool ends)
{
    block &b = now();
    fiber &f = me();
#ifdef ASAN_FIBERS
    __sanitizer_start_switch_fiber(ends ? nullptr : &f.fake_stack, b.scheduler_stack,
                                   b.scheduler_bytes);
#endif
#ifdef TSAN_FIBERS
    __tsan_switch_to_fiber(b.scheduler_tsan, 0);
#endif
    (void)ends;
#if defined(__x86_64__)
    cadre_host_switch(&f.sp, b.scheduler);
#else
    swapcontext(&f.context, &b.scheduler);
#endif
#ifdef ASAN_FIBERS
    __sanitizer_finish_switch_fiber(f.fake_stack, &b.scheduler_stack,
                                    &b.scheduler_bytes);
#endif
}

void start()
{
    block &b = now();
#ifdef ASAN_FIBERS
    __sanitizer_finish_switch_fiber(nullptr, &b.scheduler_stack, &b.scheduler_bytes);
#endif
    (*b.body)();
    cadre_host::copy_finish(0);
    me().state = ENDED;
    b.live--;
    to_scheduler(true);
    abort(); // an ended fiber is never run again
}

void make_fiber(fiber *f)
{
    if (!f->stack)
        f->stack.reset(new unsigned char[STACK_BYTES]);
    f->state = READY;
    f->fake_stack = nullptr;
    f->copies.assign(1, {});
    f->products.assign(1, {});
#ifdef TSAN_FIBERS
    if (!f->tsan)
        f->tsan = __tsan_create_fiber(0);
#endif
#if defined(__x86_64__)
    const uintptr_t top = (uintptr_t)(f->stack.get() + STACK_BYTES) & ~(uintptr_t)15;
    void **p = (void **)top;
    *--p = nullptr; // where start would return to
    *--p = (void *)start;
    for (int i = 0; i < 6; i++)
        *--p = nullptr;
    f->sp = p;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack.get();
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = nullptr;
    makecontext(&f->context, start, 0);
#endif
}

void run_fiber(fiber *f)
{
    block &b = now();
#ifdef ASAN_FIBERS
    void *fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, f->stack.get(), STACK_BYTES);
#endif
#ifdef TSAN_FIBERS
    __tsan_switch_to_fiber(f->tsan, 0);
#endif
#if defined(__x86_64__)
    cadre_host_switch(&b.scheduler, f->sp);
#else
    swapcontext(&b.scheduler, &f->context);
#endif
#ifdef ASAN_FIBERS
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void run_block(dim3 at, dim3 blocks, dim3 threads)
{
    block &b = now();
    b.live = b.count;
    b.at_barrier = 0;
    for (size_t w = 0; w < b.warps.size(); w++) {
        b.warps[w].size = b.count - (unsigned)w * 32 < 32 ? b.count % 32 : 32;
        b.warps[w].arrived = 0;
    }
    for (unsigned i = 0; i < b.count; i++) {
        make_fiber(&b.fibers[i]);
        const dim3 thread(i % threads.x, i / threads.x % threads.y,
                          i / (threads.x * threads.y));
        b.fibers[i].place = cadre_host::place{thread, at, threads, blocks};
    }
    while (b.live > 0) {
        bool ran = false;
        for (unsigned i = 0; i < b.count; i++)
            if (b.fibers[i].state == READY) {
                b.current = i;
                ran = true;
                run_fiber(&b.fibers[i]);
            }
        for (unsigned i = 0; !ran && i < b.count; i++)
            if (b.fibers[i].state != ENDED) {
                b.current = i;
                fault("deadlock: threads wait for others that wait elsewhere or "
                      "have ended");
            }
    }
}

void check_launch(dim3 grid, dim3 threads, size_t shared)
{
    const uint64_t count = (uint64_t)threads.x * threads.y * threads.z;
    if (count >= 1 && count <= 1024 && threads.z <= 64 && grid.x >= 1 && grid.y >= 1 &&
        grid.z >= 1 && grid.x <= INT32_MAX && grid.y <= 65535 && grid.z <= 65535 &&
        shared <= MOST_SHARED)
        return;
    fprintf(stderr,
            "cuda_host: a launch beyond the limits: grid (%u,%u,%u), block (%u,%u,%u), "
            "%zu bytes of shared memory\n",
            grid.x, grid.y, grid.z, threads.x, threads.y, threads.z, shared);
    abort();
}

// All lanes of the warp write their value before one reads it, and all have read it
// before one writes again.
void warp_meet()
{
    warp &w = my_warp();
    if (++w.arrived < w.size) {
        me().state = AT_WARP;
        to_scheduler(false);
        return;
    }
    w.arrived = 0;
    const unsigned first = now().current / 32 * 32;
    for (unsigned l = 0; l < w.size; l++)
        now().fibers[first + l].state = READY;
}

float of_bf16(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float of_f16(uint16_t x)
{
    const int exponent = x >> 10 & 31, fraction = x & 1023;
    float f;
    if (exponent == 31)
        f = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        f = ldexpf((float)fraction, -24);
    else
        f = ldexpf((float)(fraction + 1024), exponent - 25);
    return x & 0x8000 ? -f : f;
}

// PTX ISA, m16n8k16: a holds rows l / 4 and l / 4 + 8, columns 2 (l % 4) and + 8, in
// the order (row, k), (row + 8, k), (row, k + 8), (row + 8, k + 8); b rows as a's
// columns, column l / 4; d rows as a, columns 2 (l % 4).
void mma(float d[4], const uint32_t a[4], const uint32_t b[2], float (*real)(uint16_t))
{
    warp &w = my_warp();
    const unsigned l = cadre_host::lane(), g = l / 4, q = l % 4;
    for (unsigned i = 0; i < 12; i++) {
        const uint32_t pair = i < 8 ? a[i / 2] : b[i / 2 - 4];
        w.fragment[l][i] = real((uint16_t)(pair >> i % 2 * 16));
    }
    if (w.size != 32)
        fault("mma by a warp that is not whole");
    warp_meet();
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = g + (i >= 2 ? 8 : 0), column = q * 2 + i % 2;
        float sum = 0;
        for (unsigned k = 0; k < 16; k++) {
            const unsigned in = k % 8 / 2, high = k % 2;
            const unsigned ra = (k >= 8 ? 2 : 0) + (row >= 8 ? 1 : 0);
            sum += w.fragment[row % 8 * 4 + in][2 * ra + high] *
                   w.fragment[column * 4 + in][8 + 2 * (k >= 8) + high];
        }
        d[i] += sum;
    }
    warp_meet();
}

// Element (row, column) of a tile with rows of 128 bytes that begins at or inside one that
// is aligned to 1024 bytes: in each 8 rows chunks of 16 bytes change places by the row.
uint16_t swizzled(const unsigned char *tile, unsigned row, unsigned column)
{
    const uintptr_t at = (uintptr_t)tile + row * 128 + column * 2;
    uint16_t bits;
    memcpy(&bits, (const void *)(at ^ (at >> 7 & 7) << 4), 2);
    return bits;
}

uint32_t swizzled_pair(const unsigned char *tile, unsigned row, unsigned column)
{
    return (uint32_t)swizzled(tile, row, column) |
           (uint32_t)swizzled(tile, row, column + 1) << 16;
}

void multiply(product &p)
{
    const unsigned l = cadre_host::lane(), k = l % 4 * 2;
    const unsigned row = now().current / 32 % 4 * 16 + l / 4; // of the warpgroup
    for (unsigned i = 0; i < 4 && p.a_tile; i++)
        p.a[i] = swizzled_pair(p.a_tile, row + i % 2 * 8, k + i / 2 * 8);
    for (unsigned j = 0; j < 8; j++) {
        const unsigned n = j * 8 + l / 4;
        uint32_t b[2];
        for (unsigned i = 0; i < 2; i++) {
            const unsigned first = k + 8 * i;
            const uint16_t low =
                p.across ? swizzled(p.b, first, n) : swizzled(p.b, n, first);
            const uint16_t high =
                p.across ? swizzled(p.b, first + 1, n) : swizzled(p.b, n, first + 1);
            b[i] = (uint32_t)low | (uint32_t)high << 16;
        }
        for (unsigned i = 0; i < 4 && !p.add; i++)
            p.d[j][i] = 0;
        mma(p.d[j], p.a, b, p.is_bf16 ? of_bf16 : of_f16);
    }
}

void ldmatrix(uint32_t r[4], const void *row, bool transposed)
{
    warp &w = my_warp();
    const unsigned l = cadre_host::lane();
    if ((uintptr_t)row % 16 != 0)
        fault("ldmatrix of a row that is not aligned to 16 bytes");
    if (w.size != 32)
        fault("ldmatrix by a warp that is not whole");
    w.row[l] = row;
    warp_meet();
    for (unsigned m = 0; m < 4; m++) {
        uint16_t pair[2];
        for (unsigned i = 0; i < 2; i++) {
            const unsigned line = transposed ? l % 4 * 2 + i : l / 4;
            const unsigned at = transposed ? l / 4 : l % 4 * 2 + i;
            const char *from = static_cast<const char *>(w.row[m * 8 + line]);
            memcpy(&pair[i], from + at * 2, 2);
        }
        r[m] = (uint32_t)pair[0] | (uint32_t)pair[1] << 16;
    }
    warp_meet();
}
} // namespace

// Without the stand-in of the runtime there is one stream, and it does not wait.
__attribute__((weak)) void cadre_host_enqueue(cudaStream_t, std::function<void()> work)
{
    work();
}

namespace cadre_host
{
const place &here()
{
    return me().place;
}

void run_grid(const std::function<void()> &body, dim3 grid, dim3 threads, size_t shared)
{
    block &b = now();
    check_launch(grid, threads, shared);
    b.count = threads.x * threads.y * threads.z;
    b.body = &body;
    if (b.fibers.size() < b.count)
        b.fibers.resize(b.count);
    b.warps.resize((b.count + 31) / 32);
#ifdef TSAN_FIBERS
    b.scheduler_tsan = __tsan_get_current_fiber();
#endif
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                // where a GPU begins it: after 1024 bytes of its own
                const std::align_val_t start{1024};
                unsigned char *bytes =
                    static_cast<unsigned char *>(::operator new(shared, start));
                memset(bytes, 0xff, shared);
                b.shared = bytes;
                run_block(dim3(x, y, z), grid, threads);
                ::operator delete(bytes, start);
            }
}

unsigned char *dynamic_shared()
{
    return now().shared;
}

unsigned lane()
{
    return now().current % 32;
}

void check_mask(unsigned mask)
{
    if (mask != 0xffffffffu)
        fault("a mask that is not full");
}

void block_barrier()
{
    block &b = now();
    if (++b.at_barrier < b.count) {
        me().state = AT_BLOCK_BARRIER;
        to_scheduler(false);
        return;
    }
    b.at_barrier = 0;
    for (unsigned i = 0; i < b.count; i++)
        b.fibers[i].state = READY;
}

void warp_barrier()
{
    warp_meet();
}

uint64_t exchange(uint64_t mine, unsigned from)
{
    warp &w = my_warp();
    if (from >= w.size)
        fault("a shuffle from a lane that is not there");
    w.slot[lane()] = mine;
    warp_meet();
    const uint64_t theirs = w.slot[from];
    warp_meet();
    return theirs;
}

unsigned ballot(int mine)
{
    warp &w = my_warp();
    unsigned bits = 0;
    w.slot[lane()] = (uint64_t)(mine != 0);
    warp_meet();
    for (unsigned l = 0; l < w.size; l++)
        bits |= (unsigned)w.slot[l] << l;
    warp_meet();
    return bits;
}

void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    mma(d, a, b, of_bf16);
}

void mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    mma(d, a, b, of_f16);
}

void ldmatrix_x4(uint32_t r[4], const void *row)
{
    ldmatrix(r, row, false);
}

void ldmatrix_x4_trans(uint32_t r[4], const void *row)
{
    ldmatrix(r, row, true);
}

void wgmma(float d[8][4], const uint32_t *a, const void *a_tile, const void *b,
           bool across, bool add, bool is_bf16)
{
    product p = {d,
                 {},
                 static_cast<const unsigned char *>(a_tile),
                 static_cast<const unsigned char *>(b),
                 across,
                 add,
                 is_bf16};
    if ((uintptr_t)b % (across ? 1024 : 16) != 0 || (uintptr_t)a_tile % 16 != 0)
        fault("wgmma of a tile that is not aligned");
    if (a)
        memcpy(p.a, a, sizeof p.a);
    me().products.back().push_back(p);
}

void wgmma_commit()
{
    me().products.emplace_back();
}

void wgmma_finish(unsigned left)
{
    std::vector<std::vector<product>> &groups = me().products;
    while (groups.size() > (size_t)left + 1) {
        for (product &p : groups.front())
            multiply(p);
        groups.erase(groups.begin());
    }
}

void copy_async16(void *shared, const void *global, bool valid)
{
    if ((uintptr_t)shared % 16 != 0 || (valid && (uintptr_t)global % 16 != 0))
        fault("an asynchronous copy that is not aligned to 16 bytes");
    me().copies.back().push_back({shared, global, valid});
}

void copy_commit()
{
    me().copies.emplace_back();
}

void copy_finish(unsigned left)
{
    std::vector<std::vector<copy>> &groups = me().copies;
    while (groups.size() > (size_t)left + 1) {
        for (const copy &c : groups.front()) {
            if (c.valid)
                memcpy(c.to, c.from, 16);
            else
                memset(c.to, 0, 16);
        }
        groups.erase(groups.begin());
    }
}
} // namespace cadre_host
