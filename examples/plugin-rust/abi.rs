// SPDX-License-Identifier: Apache-2.0
//! The part of Cadre's ABI 0.10 that this plugin uses, written by hand against the offsets of
//! `abi-0.10.json` (`pkg-config --variable=abi cadre`). `layout.rs` compares the two.
//!
//! A table of the host may be declared up to the last function that is called: it is read and
//! never copied, and its size here is what the plugin asks of the host.
#![allow(dead_code)]

use std::os::raw::{c_char, c_void};

pub type Status = i32;
pub type Event = u64;
pub type ParamId = u32;

pub const OK: Status = 0;
pub const E_RESOURCE: Status = -3;
pub const MAGIC: u64 = 0x3145524441433ec3;
pub const ABI_MAJOR: u16 = 0;
pub const ABI_MINOR: u16 = 10;
pub const ROLE_DATA: u32 = 4;
pub const BATCH_SPLIT: u32 = 1;
pub const REDUCE_INNER: u32 = 0;
pub const GRAD_FINAL: u32 = 1;
pub const SUM: u32 = 1;
pub const TRAFFIC_GRAD: u32 = 2;
pub const SYNC_GRADS: u32 = 1;

/// What is opaque: the host's view of an instance, a mesh axis, the plugin's own instance.
pub enum Ctx {}
pub enum Axis {}

/// A function of a table that this plugin does not call.
pub type Unused = *const c_void;

#[repr(C)]
pub struct Buf {
    pub data: *mut c_void,
    pub count: u64,
    pub dtype: u32,
    pub space: u32,
}

#[repr(C)]
pub struct Post {
    pub struct_size: u32,
    pub kind: u32,
    pub label: *const c_char,
    pub after: Event,
    pub done: Event,
}

#[repr(C)]
pub struct Host {
    pub struct_size: u32,
    pub abi_major: u16,
    pub abi_minor: u16,
    pub ctx: *mut Ctx,
    pub service: unsafe extern "C" fn(*mut Ctx, *const c_char) -> *const c_void,
    pub fail: unsafe extern "C" fn(*mut Ctx, Status, *const c_char) -> Status,
    pub log: unsafe extern "C" fn(*mut Ctx, i32, *const c_char),
}

#[repr(C)]
pub struct MeshSvc {
    pub struct_size: u32,
    pub pad_: u32,
    pub axis: unsafe extern "C" fn(*mut Ctx, *const c_char) -> *mut Axis,
    pub find: Unused,
    pub rank: Unused,
    pub size: unsafe extern "C" fn(*const Axis) -> i32,
}

#[repr(C)]
pub struct CommSvc {
    pub struct_size: u32,
    pub pad_: u32,
    pub all_reduce:
        unsafe extern "C" fn(*mut Axis, *const Buf, *const Buf, u32, *mut Post) -> Status,
    pub reduce_scatter: Unused,
    pub all_gather: Unused,
    pub broadcast: Unused,
    pub all_to_all: Unused,
    pub all_to_all_v: Unused,
    pub send: Unused,
    pub recv: Unused,
    pub barrier: Unused,
    pub stream_wait: unsafe extern "C" fn(*mut Axis, Event) -> Status,
}

#[repr(C)]
pub struct ModelSvc {
    pub struct_size: u32,
    pub pad_: u32,
    pub n_params: unsafe extern "C" fn(*mut Ctx) -> u32,
}

#[repr(C)]
pub struct ParamSvc {
    pub struct_size: u32,
    pub pad_: u32,
    pub data: Unused,
    pub attach: Unused,
    pub grad: Unused,
    pub attach_grad: Unused,
    pub grad_span: Unused,
    pub shard: Unused,
    pub range: Unused,
    pub owned: Unused,
    pub pending: Unused,
    pub reduced: unsafe extern "C" fn(*mut Ctx, ParamId, *const Buf, Event) -> Status,
}

#[repr(C)]
pub struct Create {
    pub struct_size: u32,
    pub pad_: u32,
    pub host: *const Host,
    pub values: *const c_void,
    pub name: *const c_char,
}

#[repr(C)]
pub struct Plan {
    pub struct_size: u32,
    pub pad_: u32,
    pub h: *mut c_void,
    pub axis: *const c_char,
    pub rank: u32,
    pub ranks: u32,
    pub dtype: u32,
    pub grad_dtype: u32,
    pub exact: u32,
    pub n_units: u32,
    pub microbatches: u64,
    pub rank_microbatches: u64,
    pub batch: u64,
    pub time: u64,
    pub channels: u64,
    pub range_unit: u64,
    pub use_axis: unsafe extern "C" fn(*mut c_void, *const c_char, u32) -> Status,
    pub claim: Unused,
    pub reduces: unsafe extern "C" fn(*mut c_void, *const c_char, u32) -> Status,
}

#[repr(C)]
pub struct Bind {
    pub struct_size: u32,
    pub pad_: u32,
    pub first_step: u64,
}

#[repr(C)]
pub struct End {
    pub struct_size: u32,
    pub status: Status,
}

#[repr(C)]
pub struct Sync {
    pub struct_size: u32,
    pub what: u32,
    pub step: u64,
}

#[repr(C)]
pub struct GradEv {
    pub struct_size: u32,
    pub flags: u32,
    pub param: ParamId,
    pub microbatch: u32,
    pub global_microbatch: u64,
    pub ready: Event,
    pub grad: *mut Buf,
    pub node: *const c_void,
    pub n_nodes: u32,
    pub map: u32,
}

/// The plugin's own functions; a slot that is not filled is None.
#[repr(C)]
pub struct StrategyOps<Instance> {
    pub struct_size: u32,
    pub pad_: u32,
    pub create: Option<unsafe extern "C" fn(*const Create, *mut *mut Instance) -> Status>,
    pub plan: Option<unsafe extern "C" fn(*mut Instance, *const Plan) -> Status>,
    pub place: Unused,
    pub bind: Option<unsafe extern "C" fn(*mut Instance, *const Bind) -> Status>,
    pub step: Unused,
    pub sync: Option<unsafe extern "C" fn(*mut Instance, *const Sync) -> Status>,
    pub on_block: Unused,
    pub on_grad: Option<unsafe extern "C" fn(*mut Instance, *mut GradEv) -> Status>,
    pub on_redistribute: Unused,
    pub state: Unused,
    pub abort: Unused,
    pub destroy: Option<unsafe extern "C" fn(*mut Instance, *const End)>,
    pub update: Unused,
    pub wire_bytes: Unused,
    pub wire: Unused,
}

#[repr(C)]
pub struct Service {
    pub id: *const c_char,
    pub offset: u32,
    pub bytes: u32,
}

#[repr(C)]
pub struct Plugin<Instance: 'static> {
    pub magic: u64,
    pub struct_size: u32,
    pub abi_major: u16,
    pub abi_minor: u16,
    pub min_host_minor: u16,
    pub pad_: u16,
    pub role: u32,
    pub id: *const c_char,
    pub version: *const c_char,
    pub summary: *const c_char,
    pub build: *const c_char,
    pub axis: *const c_char,
    pub options: *const c_void,
    pub n_options: u32,
    pub option_stride: u32,
    pub services: *const Service,
    pub ops: *const StrategyOps<Instance>,
    pub command: Unused,
}

/// Static data that holds pointers to other static data: never written, so any thread may
/// read it.
#[repr(transparent)]
pub struct Static<T>(pub T);
unsafe impl<T> std::marker::Sync for Static<T> {}

/// A C string of the program.
pub const fn text(bytes: &'static [u8]) -> *const c_char {
    bytes.as_ptr() as *const c_char
}
