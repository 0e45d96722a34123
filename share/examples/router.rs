//! router.rs: a router in Rust, without crates: logits = sharpness (x / |x|) W^T, with a live option.
//!
//!     rustc --edition 2021 --crate-type cdylib -O -C panic=abort router.rs -o direction_rust.so
//!     moefw plugin check ./direction_rust.so && moefw --plugin ./direction_rust.so --steps 50
//!
//! The types are those of <moefw/types.h>, routing.h, host.h and plugin.h, up to the last field that
//! is used here: structs only grow at their ends, so their first fields never move.
#![allow(non_upper_case_globals)]
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::{null, null_mut};

const MF_OPT_REAL: u32 = 2;
const MF_OPT_LIVE: u32 = 1;
const MF_INIT_NORMAL: u32 = 2;

// What the program owns and this plugin only passes on.
#[repr(C)]
struct Ctx(c_void);
#[repr(C)]
struct Graph(c_void);
#[repr(C)]
struct Tensor(c_void);
type Value = *mut Tensor;

#[repr(C)]
struct Shape { rank: i32, reserved: i32, dim: [i64; 4] }
#[repr(C)]
struct Attr { i: [i64; 8], f: [f64; 4] }
#[repr(C)]
struct Init { kind: u32, flags: u32, a: f64 }

#[repr(C)]
struct Dims { size: u32, layer: i32, n_layers: i32, dim: i32, experts: i32, top_k: i32 }
#[repr(C)]
struct RouterIn { size: u32, batch: i32, seq: i32, experts: i32, top_k: i32, x: Value }
#[repr(C)]
struct Routing { size: u32, layer: i32, experts: i32, top_k: i32, logits: Value }

// A function of the program that is not called here.
type Unused = *const c_void;

#[repr(C)]
struct Host {
    size: u32,
    abi: u32,
    fail: Unused,
    log: Unused,
    param: extern "C" fn(*mut Ctx, *const c_char, Shape, Init) -> c_int,
    buffer: Unused,
    use_: extern "C" fn(*mut Ctx, *mut Graph, *const c_char) -> Value,
    data: Unused,
    find: Unused,
    live: extern "C" fn(*mut Ctx, *mut Graph, *const c_char) -> Value,
    set_live: Unused,
    get_live: Unused,
    op: extern "C" fn(*mut Graph, *const c_char, c_int, *const Value, *const Attr, c_int, *mut Value) -> Value,
    custom: Unused,
    constant: Unused,
    status: extern "C" fn(*const Graph) -> c_int,
    others_of_abi_1: [Unused; 8],
}

#[repr(C)]
struct PluginOption {
    name: *const c_char,
    help: *const c_char,
    value: *const c_char,
    kind: u32,
    flags: u32,
    offset: usize,
    lo: f64,
    hi: f64,
    choices: *const *const c_char,
}
#[repr(C)]
struct Router {
    size: u32,
    flags: u32,
    init: extern "C" fn(*mut c_void, *mut Ctx, *const Conf, *const Dims) -> c_int,
    fini: Option<extern "C" fn(*mut c_void)>,
    route: extern "C" fn(*mut c_void, *mut Ctx, *mut Graph, *const RouterIn, *mut Routing) -> c_int,
    after_step: Option<extern "C" fn(*mut c_void, *mut Ctx, *const c_void) -> c_int>,
}
#[repr(C)]
pub struct Plugin {
    magic: u32, abi: u32,
    size: u32, host_size: u32, option_size: u32, vtable_size: u32, kind: u32, reserved: u32,
    name: *const c_char, version: *const c_char, license: *const c_char, brief: *const c_char,
    options: *const PluginOption,
    conf_size: usize, self_size: usize,
    vtable: *const Router,
    host: *mut *const Host,
}
unsafe impl Sync for Plugin {}
unsafe impl Sync for PluginOption {}

// ---- the router ----

#[repr(C)]
struct Conf { sharpness: f64 }

static mut HOST: *const Host = null();

/// The functions of the program; the loader has set the address before it calls any function.
fn mf() -> &'static Host { unsafe { &*HOST } }

fn op(g: *mut Graph, name: &CStr, inputs: &[Value], attr: *const Attr) -> Value {
    (mf().op)(g, name.as_ptr(), inputs.len() as c_int, inputs.as_ptr(), attr, 1, null_mut())
}

extern "C" fn init(_this: *mut c_void, ctx: *mut Ctx, _conf: *const Conf, dims: *const Dims) -> c_int {
    let d = unsafe { &*dims };
    let shape = Shape { rank: 2, reserved: 0, dim: [d.experts as i64, d.dim as i64, 1, 1] };
    (mf().param)(ctx, c"weight".as_ptr(), shape, Init { kind: MF_INIT_NORMAL, flags: 0, a: 0.02 })
}

extern "C" fn route(_this: *mut c_void, ctx: *mut Ctx, g: *mut Graph, input: *const RouterIn, out: *mut Routing) -> c_int {
    let eps = Attr { i: [0; 8], f: [1e-6, 0.0, 0.0, 0.0] };
    let x = op(g, c"l2_normalize", &[unsafe { (*input).x }], &eps);
    let weight = (mf().use_)(ctx, g, c"weight".as_ptr());
    let logits = op(g, c"linear", &[x, weight, null_mut()], null()); // no bias
    let sharpness = (mf().live)(ctx, g, c"sharpness".as_ptr());
    unsafe { (*out).logits = op(g, c"mul", &[logits, sharpness], null()) };
    (mf().status)(g)
}

static OPTIONS: [PluginOption; 2] = [
    PluginOption {
        name: c"sharpness".as_ptr(), help: c"multiplies the logits".as_ptr(), value: c"10".as_ptr(),
        kind: MF_OPT_REAL, flags: MF_OPT_LIVE, offset: 0, lo: 0.01, hi: 1000.0, choices: null(),
    },
    PluginOption {
        name: null(), help: null(), value: null(),
        kind: 0, flags: 0, offset: 0, lo: 0.0, hi: 0.0, choices: null(),
    },
];
static ROUTER: Router = Router { size: size_of::<Router>() as u32, flags: 0, init, fini: None, route, after_step: None };

#[no_mangle]
pub static moefw_plugin: Plugin = Plugin {
    magic: 0x6d6f6566, abi: 1,
    size: size_of::<Plugin>() as u32, host_size: size_of::<Host>() as u32,
    option_size: size_of::<PluginOption>() as u32, vtable_size: size_of::<Router>() as u32,
    kind: 1, reserved: 0, // a router
    name: c"direction_rust".as_ptr(), version: c"1.0".as_ptr(), license: c"MIT".as_ptr(),
    brief: c"linear in the direction of the token, in Rust".as_ptr(),
    options: (&raw const OPTIONS).cast(),
    conf_size: size_of::<Conf>(), self_size: 1,
    vtable: &raw const ROUTER, host: &raw mut HOST,
};
