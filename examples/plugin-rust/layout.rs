// SPDX-License-Identifier: Apache-2.0
//! Prints the layout of abi.rs: "STRUCT MEMBER OFFSET SIZE", and "STRUCT SIZE" for structs that
//! this plugin fills or gets by value. `make layout` compares it with the published offsets.
mod abi;

use abi::*;
use std::mem::{size_of, MaybeUninit};
use std::ptr::addr_of;

macro_rules! members {
    ($name:literal, $type:ty, $($member:ident)*) => {
        let place = MaybeUninit::<$type>::zeroed();
        let base = place.as_ptr();
        $(
            let at = unsafe { addr_of!((*base).$member) };
            let bytes = size_of_pointee(at);
            println!("{} {} {} {}", $name, stringify!($member), at as usize - base as usize,
                     bytes);
        )*
    };
}

/// Size of what a pointer points to, which is not read.
fn size_of_pointee<T>(_: *const T) -> usize {
    size_of::<T>()
}

fn main() {
    members!("cadre_buf", Buf, data count dtype space);
    members!("cadre_post", Post, struct_size kind label after done);
    members!("cadre_host", Host, struct_size abi_major abi_minor ctx service fail log);
    members!("cadre_mesh_svc", MeshSvc, struct_size axis find rank size);
    members!("cadre_comm_svc", CommSvc, struct_size all_reduce reduce_scatter all_gather
             broadcast all_to_all all_to_all_v send recv barrier stream_wait);
    members!("cadre_model_svc", ModelSvc, struct_size n_params);
    members!("cadre_param_svc", ParamSvc, struct_size data attach grad attach_grad grad_span
             shard range owned pending reduced);
    members!("cadre_create", Create, struct_size host values name);
    members!("cadre_plan", Plan, struct_size h axis rank ranks dtype grad_dtype exact n_units
             microbatches rank_microbatches batch time channels range_unit use_axis claim
             reduces);
    members!("cadre_bind", Bind, struct_size first_step);
    members!("cadre_end", End, struct_size status);
    members!("cadre_sync", Sync, struct_size what step);
    members!("cadre_grad_ev", GradEv, struct_size flags param microbatch global_microbatch
             ready grad node n_nodes map);
    members!("cadre_strategy_ops", StrategyOps<u8>, struct_size create plan place bind step
             sync on_block on_grad on_redistribute state abort destroy update wire_bytes wire);
    members!("cadre_service", Service, id offset bytes);
    members!("cadre_plugin", Plugin<u8>, magic struct_size abi_major abi_minor min_host_minor
             role id version summary build axis options n_options option_stride services ops
             command);
    println!("cadre_buf {}", size_of::<Buf>());
    println!("cadre_post {}", size_of::<Post>());
    println!("cadre_strategy_ops {}", size_of::<StrategyOps<u8>>());
    println!("cadre_service {}", size_of::<Service>());
    println!("cadre_plugin {}", size_of::<Plugin<u8>>());
    println!("CADRE_MAGIC {}", MAGIC);
    println!("CADRE_ABI_MAJOR {}", ABI_MAJOR);
    println!("CADRE_ABI_MINOR {}", ABI_MINOR);
    println!("CADRE_ROLE_DATA {}", ROLE_DATA);
    println!("CADRE_BATCH_SPLIT {}", BATCH_SPLIT);
    println!("CADRE_REDUCE_INNER {}", REDUCE_INNER);
    println!("CADRE_GRAD_FINAL {}", GRAD_FINAL);
    println!("CADRE_SUM {}", SUM);
    println!("CADRE_TRAFFIC_GRAD {}", TRAFFIC_GRAD);
    println!("CADRE_SYNC_GRADS {}", SYNC_GRADS);
    println!("CADRE_E_RESOURCE {}", E_RESOURCE);
}
