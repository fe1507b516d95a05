//! What objects are put into: boxes, slabs, pools.
//!
//! A slab is asked by key and moves its values in and out; a box or a lease is a handle that gives
//! back when it is dropped. Each is timed through the calls that its users write.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::mem::MaybeUninit;

use super::bufpool::{self, Bufpool};

/// An object of `N` bytes that nobody writes.
#[repr(align(8))]
pub struct Data<const N: usize>(MaybeUninit<[u8; N]>);

impl<const N: usize> Data<N> {
    fn new() -> Self {
        Data(MaybeUninit::uninit())
    }
}

/// Something that holds objects.
pub trait Store {
    /// What a held object is known by.
    type Handle<'s>
    where
        Self: 's;
    /// An empty one.
    fn new() -> Self;
    /// One that is ready for so many objects.
    fn warm(objects: usize) -> Self;
    /// Holds one more.
    fn put(&self) -> Self::Handle<'_>;
    /// Gives one back.
    fn take<'s>(&'s self, handle: Self::Handle<'s>);
}

/// `Box`, by the process' global allocator.
pub struct Boxes<const N: usize>;

impl<const N: usize> Store for Boxes<N> {
    type Handle<'s> = Box<Data<N>>;

    fn new() -> Self {
        Boxes
    }
    fn warm(_: usize) -> Self {
        Boxes
    }
    #[inline(always)]
    fn put(&self) -> Box<Data<N>> {
        black_box(Box::new(Data::new()))
    }
    #[inline(always)]
    fn take(&self, handle: Box<Data<N>>) {
        drop(handle);
    }
}

/// A slab, which wants to be borrowed alone for every change.
pub struct Keyed<S>(UnsafeCell<S>);

macro_rules! keyed {
    ($slab:ty) => {
        impl<const N: usize> Store for Keyed<$slab> {
            type Handle<'s> = usize;

            fn new() -> Self {
                Keyed(UnsafeCell::new(<$slab>::new()))
            }
            fn warm(objects: usize) -> Self {
                Keyed(UnsafeCell::new(<$slab>::with_capacity(objects)))
            }
            #[inline(always)]
            fn put(&self) -> usize {
                // SAFETY: a cell belongs to one thread, and no reference leaves these methods.
                black_box(unsafe { &mut *self.0.get() }.insert(Data::new()))
            }
            #[inline(always)]
            fn take(&self, key: usize) {
                // SAFETY: as above.
                let value = unsafe { &mut *self.0.get() }.remove(key);
                // By address: how often a value is copied on its way into `black_box` is the
                // optimiser's luck, and no slab's doing.
                black_box(&value);
            }
        }
    };
}

keyed!(slab::Slab<Data<N>>);
keyed!(masu::Slab<Data<N>>);

macro_rules! leasing {
    ($pool:ty, $lease:ident, $new:expr, $address:expr) => {
        impl<const N: usize> Store for $pool {
            type Handle<'s> = $lease<'s, N>;

            fn new() -> Self {
                $new
            }
            /// Leases as many as there will be, and gives them back.
            fn warm(objects: usize) -> Self {
                let pool: Self = <Self as Store>::new();
                let leases: Vec<_> = (0..objects).map(|_| pool.lease()).collect();
                drop(leases);
                pool
            }
            #[inline(always)]
            fn put(&self) -> $lease<'_, N> {
                let mut lease = self.lease();
                black_box($address(&mut lease));
                lease
            }
            #[inline(always)]
            fn take<'s>(&'s self, lease: $lease<'s, N>) {
                drop(lease);
            }
        }
    };
}

/// How a pool makes its objects.
pub type Make<const N: usize> = fn() -> Data<N>;
type BufpoolLease<'s, const N: usize> = bufpool::Lease<'s, Data<N>>;
type PoolLease<'s, const N: usize> = masu::pool::Lease<'s, Make<N>>;

leasing!(Bufpool<Data<N>>, BufpoolLease, Bufpool::new(Data::new), |lease: &mut BufpoolLease<N>| {
    lease.address()
});
leasing!(
    masu::Pool<Make<N>>,
    PoolLease,
    masu::Pool::new(Data::new as Make<N>),
    |lease: &mut PoolLease<N>| &raw mut **lease
);
