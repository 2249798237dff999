/* SPDX-License-Identifier: Apache-2.0 */
/* What engines send each other besides data: a failure, and what they are waiting
 * in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/comm/mpi/private.h"

enum { NOTE_FAILURE, NOTE_QUESTION, NOTE_ANSWER };
enum { TAG_NOTE = 1, TAG_BEAT = 2 };

#define LOOK_S 1e-3 /* between polls while there is other work */
#define TELL_S 1.0 /* time for the others to receive a failure */
#define LINGER_S 0.1 /* a receiver of a failure serves other reporters so long */
#define ASK_AT 0.75 /* of the time limit: then all ranks are asked where they are */
#define ANSWER_IN 0.125 /* of it at least: this rank may have been stopped itself */
#define DOING_S 1.0 /* what a rank does is looked at no more often */
#define BEAT_S 1.0
#define LOST_AT 0.25 /* of the time limit, without a heartbeat, but */
#define LOST_S 15.0 /* not before */

/* ---- notes ---- */

static void take_in(struct mpi_world *w)
{
    struct mpi_control *c = &w->control;
    cadre_mpi_check(w, NULL,
                    MPI_Irecv(&c->incoming, (int)sizeof c->incoming, MPI_BYTE,
                              MPI_ANY_SOURCE, TAG_NOTE, c->comm, &c->request));
}

/* `wait`: until it is received, so that it has left this process. */
static void send(struct mpi_world *w, int to, const struct mpi_note *note, bool wait)
{
    struct mpi_sent *sent = malloc(sizeof *sent);
    if (!sent)
        return;
    sent->note = *note;
    int result =
        (wait ? MPI_Issend : MPI_Isend)(&sent->note, (int)sizeof sent->note, MPI_BYTE,
                                        to, TAG_NOTE, w->control.comm, &sent->request);
    if (result != MPI_SUCCESS) {
        free(sent);
        return;
    }
    sent->next = w->control.sent;
    w->control.sent = sent;
}

static void send_all(struct mpi_world *w, const struct mpi_note *note)
{
    for (int r = 0; r < w->context.size; r++)
        if (r != w->context.rank)
            send(w, r, note, false);
}

/* Ranks that did not answer are not waited for. */
static void send_failure(struct mpi_world *w, const struct mpi_note *note)
{
    const struct mpi_inquiry *q = &w->control.inquiry;
    for (int r = 0; r < w->context.size; r++)
        if (r != w->context.rank && r != w->control.lost &&
            (q->id == 0 || q->answered[r]))
            send(w, r, note, true);
}

/* Drop sends that have arrived; true where none is left. */
static bool all_sent(struct mpi_world *w)
{
    for (struct mpi_sent **at = &w->control.sent; *at;) {
        struct mpi_sent *sent = *at;
        int over = 0;
        if (MPI_Test(&sent->request, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS || over) {
            *at = sent->next;
            free(sent);
        } else
            at = &sent->next;
    }
    return !w->control.sent;
}

/* ---- questions ---- */

/* Under the lock. */
static const struct mpi_group *find(const struct mpi_world *w, uint64_t id)
{
    const struct mpi_group *g = w->groups;
    while (g && g->id != id)
        g = g->next;
    return g;
}

static void say_where(const struct mpi_world *w, struct mpi_note *note)
{
    if (w->active)
        cadre_mpi_op_text(w->active, note->text, sizeof note->text);
    else
        snprintf(note->text, sizeof note->text, "step %llu, with nothing to wait for",
                 (unsigned long long)atomic_load(&w->step));
}

/* What this rank's thread does, which hosts elsewhere do not see. It is looked at for
 * 50 ms, so once for all that ask now. */
static void say_doing(struct mpi_world *w, const struct mpi_note *question,
                      struct mpi_note *note)
{
    struct mpi_control *c = &w->control;
    struct cadre_comm about = {.context = &w->context};
    struct cadre_comm_op op = {.kind = question->kind, .sequence = UINT64_MAX};
    char name[32] = ""; /* of a group that may end meanwhile */
    const double now = cadre_now_s();
    if (!w->context.explain)
        return;
    pthread_mutex_lock(&w->lock);
    const struct mpi_group *g = find(w, question->group);
    if (g) /* or else this rank has no part in it, but may hold it up */
        op.sequence = question->sequence;
    if (g && g->base.name) {
        snprintf(name, sizeof name, "%s", g->base.name);
        about.name = name;
    }
    pthread_mutex_unlock(&w->lock);
    if (c->doing_s == 0 || now - c->doing_s > DOING_S) {
        w->context.explain(&about, &op, w->context.rank, false, c->doing,
                           sizeof c->doing);
        c->doing_s = now;
    }
    snprintf(note->doing, sizeof note->doing, "%s", c->doing);
}

static void answer(struct mpi_world *w, const struct mpi_note *question)
{
    struct mpi_note note = *question;
    int k = question->member;
    const struct mpi_queue *queue = NULL;
    note.type = NOTE_ANSWER;
    note.from = w->context.rank;
    note.sequence = 0;
    pthread_mutex_lock(&w->lock);
    const struct mpi_group *g = find(w, question->group);
    if (g && k < 0)
        queue = &g->all;
    else if (g && k < g->base.size)
        queue = question->sends ? &g->recv[k] : &g->send[k];
    if (queue)
        note.sequence = queue->began;
    pthread_mutex_unlock(&w->lock);
    say_where(w, &note);
    say_doing(w, question, &note);
    for (const struct mpi_op *op = w->active; op; op = op->next_active)
        if (op->queue == queue && op->base.sequence == question->sequence) {
            note.kind = (uint32_t)op->base.kind;
            note.dtype = op->base.dtype;
            note.count = op->base.count;
            cadre_mpi_op_text(op, note.text, sizeof note.text);
        }
    send(w, question->from, &note, false);
}

static void ask(struct mpi_world *w, const struct mpi_op *op)
{
    struct mpi_inquiry *q = &w->control.inquiry;
    bool message = op->base.kind == CADRE_COMM_SEND || op->base.kind == CADRE_COMM_RECV;
    const struct mpi_note note = {
        .type = NOTE_QUESTION,
        .from = w->context.rank,
        .member = message ? op->group->base.rank : -1,
        .kind = (uint32_t)op->base.kind,
        .dtype = op->base.dtype,
        .sends = op->base.kind == CADRE_COMM_SEND,
        .group = op->group->id,
        .sequence = op->base.sequence,
        .count = op->base.count,
        .nonce = ++q->nonce,
    };
    q->id = op->id;
    q->asked_s = cadre_now_s();
    memset(q->answered, 0, (size_t)w->context.size * sizeof *q->answered);
    send_all(w, &note);
}

static void take_answer(struct mpi_world *w, const struct mpi_note *note)
{
    struct mpi_inquiry *q = &w->control.inquiry;
    if (note->nonce != q->nonce || note->from < 0 || note->from >= w->context.size)
        return;
    q->answered[note->from] = true;
    q->answers[note->from] = *note;
}

static void take_failure(struct mpi_world *w, const struct mpi_note *note)
{
    pthread_mutex_lock(&w->lock);
    if (!cadre_failure_is_set(&w->failure)) {
        cadre_mpi_fail_locked(w, NULL, (cadre_status)note->code, note->text);
        w->tell_all = false;
    }
    pthread_mutex_unlock(&w->lock);
}

static bool take_notes(struct mpi_world *w)
{
    struct mpi_control *c = &w->control;
    int come = 0;
    if (c->request == MPI_REQUEST_NULL ||
        cadre_mpi_check(w, NULL, MPI_Test(&c->request, &come, MPI_STATUS_IGNORE)) !=
            CADRE_OK ||
        !come)
        return false;
    struct mpi_note note = c->incoming;
    note.text[sizeof note.text - 1] = '\0';
    note.doing[sizeof note.doing - 1] = '\0';
    take_in(w);
    if (note.type == NOTE_FAILURE)
        take_failure(w, &note);
    else if (note.type == NOTE_QUESTION)
        answer(w, &note);
    else
        take_answer(w, &note);
    return true;
}

/* ---- limits ---- */

/* The oldest begun operation has waited longest. */
static void look_at_oldest(struct mpi_world *w)
{
    const struct mpi_op *op = w->active;
    struct mpi_inquiry *q = &w->control.inquiry;
    char why[TEXT_BYTES];
    if (!op || q->id != op->id)
        q->id = 0;
    if (!op)
        return;
    const double now_s = cadre_now_s(), waited_s = now_s - op->began_s;
    if (waited_s >= ASK_AT * w->timeout_s && q->id != op->id)
        ask(w, op);
    if (waited_s < w->timeout_s || now_s - q->asked_s < ANSWER_IN * w->timeout_s)
        return;
    cadre_mpi_late_text(w, op, q, why, sizeof why);
    cadre_mpi_fail(w, op, CADRE_E_COMM, "%s", why);
}

static void fail_lost(struct mpi_world *w, int rank, double silent_s)
{
    char who[96], where[TEXT_BYTES / 2], me[96];
    struct mpi_note here = {0};
    cadre_mpi_rank_text(w, rank, who, sizeof who);
    cadre_mpi_rank_text(w, w->context.rank, me, sizeof me);
    say_where(w, &here);
    snprintf(where, sizeof where, "%.*s", (int)sizeof where - 1, here.text);
    w->control.lost = rank;
    cadre_mpi_fail(w, w->active, CADRE_E_COMM,
                   "%s does not answer: its process has ended or is stopped, or its "
                   "host is cut off; "
                   "%s has not heard of it for %.0f s, and waited in %s",
                   who, me, silent_s, where);
}

/* Each rank receives heartbeats of the one before it, so that a lost rank is detected
 * before operations that wait for it reach their time limit. */
static void look_at_beats(struct mpi_world *w)
{
    struct mpi_control *c = &w->control;
    int before = (w->context.rank + w->context.size - 1) % w->context.size, over = 1;
    double now = cadre_now_s();
    if (w->context.size == 1)
        return;
    if (c->beat_in != MPI_REQUEST_NULL)
        MPI_Test(&c->beat_in, &over, MPI_STATUS_IGNORE);
    if (over) {
        c->heard_s = now;
        MPI_Irecv(&c->beat[0], 1, MPI_CHAR, before, TAG_BEAT, c->comm, &c->beat_in);
    }
    over = 1;
    if (c->beat_out != MPI_REQUEST_NULL)
        MPI_Test(&c->beat_out, &over, MPI_STATUS_IGNORE);
    if (over && now - c->beat_s >= BEAT_S) {
        c->beat_s = now;
        MPI_Isend(&c->beat[1], 1, MPI_CHAR, (w->context.rank + 1) % w->context.size,
                  TAG_BEAT, c->comm, &c->beat_out);
    }
    double limit = LOST_AT * w->timeout_s > LOST_S ? LOST_AT * w->timeout_s : LOST_S;
    if (now - c->heard_s > limit && w->timeout_s > limit)
        fail_lost(w, before, now - c->heard_s);
}

/* ---- what the engine calls ---- */

cadre_status cadre_mpi_control_open(struct mpi_world *w)
{
    struct mpi_control *c = &w->control;
    size_t size = (size_t)w->context.size;
    c->inquiry.answered = calloc(size, sizeof *c->inquiry.answered);
    c->inquiry.answers = calloc(size, sizeof *c->inquiry.answers);
    c->heard_s = cadre_now_s();
    c->lost = -1;
    if (!c->inquiry.answered || !c->inquiry.answers)
        return CADRE_E_RESOURCE;
    take_in(w);
    return CADRE_OK;
}

bool cadre_mpi_control_turn(struct mpi_world *w)
{
    double now = cadre_now_s();
    if (w->idle == 0 && now - w->control.looked_s < LOOK_S)
        return false;
    w->control.looked_s = now;
    bool moved = take_notes(w);
    all_sent(w);
    look_at_beats(w);
    look_at_oldest(w);
    return moved;
}

static void nap(void)
{
    const struct timespec time = {.tv_nsec = 200000};
    nanosleep(&time, NULL);
}

void cadre_mpi_control_tell(struct mpi_world *w)
{
    struct mpi_note note = {.type = NOTE_FAILURE, .from = w->context.rank};
    double now = cadre_now_s();
    pthread_mutex_lock(&w->lock);
    bool ours = w->tell_all;
    note.code = (int32_t)cadre_failure_code(&w->failure);
    snprintf(note.text, sizeof note.text, "%s", cadre_failure_text(&w->failure));
    pthread_mutex_unlock(&w->lock);
    if (ours)
        send_failure(w, &note);
    while ((!all_sent(w) && cadre_now_s() < now + TELL_S) ||
           cadre_now_s() < now + LINGER_S) {
        take_notes(w);
        nap();
    }
}

/* Requests that will not be answered any more. */
static void cancel(MPI_Request *request)
{
    if (*request == MPI_REQUEST_NULL)
        return;
    MPI_Cancel(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

bool cadre_mpi_control_leave(struct mpi_world *w)
{
    struct mpi_control *c = &w->control;
    MPI_Request all = MPI_REQUEST_NULL;
    double until = cadre_now_s() + w->timeout_s;
    bool failed = false;
    int here = 0;
    if (MPI_Ibarrier(c->comm, &all) != MPI_SUCCESS)
        return false;
    while (!failed && cadre_now_s() < until) {
        if (MPI_Test(&all, &here, MPI_STATUS_IGNORE) != MPI_SUCCESS || here)
            break;
        cadre_mpi_control_turn(w);
        nap();
        pthread_mutex_lock(&w->lock);
        w->turned_s = cadre_now_s();
        failed = cadre_failure_is_set(&w->failure);
        pthread_mutex_unlock(&w->lock);
    }
    if (!here || failed)
        return false;
    cancel(&c->request);
    cancel(&c->beat_in);
    while (!all_sent(w) && cadre_now_s() < until)
        nap();
    return c->sent == NULL;
}

void cadre_mpi_control_free(struct mpi_world *w)
{
    struct mpi_control *c = &w->control;
    while (c->sent) {
        struct mpi_sent *sent = c->sent;
        c->sent = sent->next;
        free(sent);
    }
    free(c->inquiry.answered);
    free(c->inquiry.answers);
}
