// SPDX-License-Identifier: Apache-2.0
//! rust_ddp: data-parallel replicas in Rust, without bindgen and without a crate. Gradients are
//! summed over the ranks while backward runs, one operation for each.
//!
//! What Rust has to mind: nothing unwinds across the boundary (the Makefile says panic=abort,
//! and nothing here panics), and every pointer of a callback is valid during the call only.
mod abi;

use abi::*;
use std::mem::size_of;
use std::ptr::{null, null_mut};

pub struct Instance {
    host: *const Host,
    mesh: *const MeshSvc,
    comm: *const CommSvc,
    model: *const ModelSvc,
    param: *const ParamSvc,
    axis: *mut Axis,
    ranks: i32,
    done: Vec<Event>, // by gradient entry: of the sum that is in flight; 0: none is
}

/// Return the status of a call that failed.
macro_rules! check {
    ($call:expr) => {
        match $call {
            OK => {}
            failed => return failed,
        }
    };
}

const MESH: &[u8] = b"cadre.mesh/1\0";
const COMM: &[u8] = b"cadre.comm/1\0";
const MODEL: &[u8] = b"cadre.model/1\0";
const PARAM: &[u8] = b"cadre.param/1\0";

/// The table of a service. The host has it: it refuses a plugin whose list of services it
/// cannot fill before `create`.
unsafe fn service<T>(host: &Host, id: &'static [u8]) -> *const T {
    (host.service)(host.ctx, text(id)) as *const T
}

unsafe extern "C" fn create(made: *const Create, out: *mut *mut Instance) -> Status {
    let host = &*(*made).host;
    *out = Box::into_raw(Box::new(Instance {
        host,
        mesh: service(host, MESH),
        comm: service(host, COMM),
        model: service(host, MODEL),
        param: service(host, PARAM),
        axis: null_mut(),
        ranks: 1,
        done: Vec::new(),
    }));
    OK
}

unsafe extern "C" fn plan(_: *mut Instance, p: *const Plan) -> Status {
    let p = &*p;
    check!((p.use_axis)(p.h, p.axis, BATCH_SPLIT));
    (p.reduces)(p.h, p.axis, REDUCE_INNER)
}

unsafe extern "C" fn bind(this: *mut Instance, _: *const Bind) -> Status {
    let this = &mut *this;
    let ctx = (*this.host).ctx;
    this.axis = ((*this.mesh).axis)(ctx, null());
    this.ranks = ((*this.mesh).size)(this.axis);
    let entries = ((*this.model).n_params)(ctx) as usize;
    if this.done.try_reserve(entries).is_err() {
        return ((*this.host).fail)(ctx, E_RESOURCE, text(b"no memory for the sums\0"));
    }
    this.done.resize(entries, 0);
    OK
}

unsafe extern "C" fn on_grad(this: *mut Instance, ev: *mut GradEv) -> Status {
    let (this, ev) = (&mut *this, &mut *ev);
    if this.ranks == 1 || ev.flags & GRAD_FINAL == 0 {
        return OK;
    }
    let mut post = Post {
        struct_size: size_of::<Post>() as u32,
        kind: TRAFFIC_GRAD,
        label: text(b"rust_ddp gradient\0"),
        after: ev.ready,
        done: 0,
    };
    check!(((*this.comm).all_reduce)(this.axis, ev.grad, ev.grad, SUM, &mut post));
    if let Some(done) = this.done.get_mut(ev.param as usize) {
        *done = post.done;
    }
    ev.ready = post.done;
    ((*this.param).reduced)((*this.host).ctx, ev.param, ev.grad, post.done)
}

unsafe extern "C" fn sync(this: *mut Instance, at: *const Sync) -> Status {
    let this = &mut *this;
    if (*at).what != SYNC_GRADS {
        return OK;
    }
    for done in this.done.iter_mut().filter(|done| **done != 0) {
        check!(((*this.comm).stream_wait)(this.axis, *done));
        *done = 0;
    }
    OK
}

unsafe extern "C" fn destroy(this: *mut Instance, _: *const End) {
    drop(Box::from_raw(this));
}

/// A service with the size of its table as this plugin declares it: up to the last function
/// that it calls. The offset serves plugins in C, whose helper fills the instance by it.
const fn needs(id: &'static [u8], bytes: usize) -> Service {
    Service { id: text(id), offset: 0, bytes: bytes as u32 }
}

static SERVICES: Static<[Service; 5]> = Static([
    needs(MESH, size_of::<MeshSvc>()),
    needs(COMM, size_of::<CommSvc>()),
    needs(MODEL, size_of::<ModelSvc>()),
    needs(PARAM, size_of::<ParamSvc>()),
    Service { id: null(), offset: 0, bytes: 0 },
]);

static OPS: Static<StrategyOps<Instance>> = Static(StrategyOps {
    struct_size: size_of::<StrategyOps<Instance>>() as u32,
    pad_: 0,
    create: Some(create),
    plan: Some(plan),
    place: null(),
    bind: Some(bind),
    step: null(),
    sync: Some(sync),
    on_block: null(),
    on_grad: Some(on_grad),
    on_redistribute: null(),
    state: null(),
    abort: null(),
    destroy: Some(destroy),
    update: null(),
    wire_bytes: null(),
    wire: null(),
});

static PLUGIN: Static<Plugin<Instance>> = Static(Plugin {
    magic: MAGIC,
    struct_size: size_of::<Plugin<Instance>>() as u32,
    abi_major: ABI_MAJOR,
    abi_minor: ABI_MINOR,
    min_host_minor: ABI_MINOR,
    pad_: 0,
    role: ROLE_DATA,
    id: text(b"org.example.rust_ddp\0"),
    version: text(b"0.1.0\0"),
    summary: text(b"replicas whose gradients are summed, in Rust\0"),
    build: null(),
    axis: text(b"dp\0"),
    options: null(),
    n_options: 0,
    option_stride: 0,
    services: SERVICES.0.as_ptr(),
    ops: &OPS.0,
    command: null(),
});

/// The only symbol that is exported.
#[no_mangle]
pub extern "C" fn cadre_plugin_entry_1() -> *const Plugin<Instance> {
    &PLUGIN.0
}
