//! Tests of the pool.

use super::*;
use std::time::Duration;

fn pools() -> [ThreadPool; 4] {
    [
        ThreadPool::new(Some(1)).unwrap(),
        ThreadPool::new(Some(2)).unwrap(),
        ThreadPool::new(Some(5)).unwrap(),
        ThreadPool::with_spin_wait(3, Pinning::None, SpinWait::NONE).unwrap(),
    ]
}

#[test]
fn every_worker_runs_every_task_once() {
    for pool in pools() {
        let calls: Vec<AtomicUsize> = (0..pool.workers()).map(|_| AtomicUsize::new(0)).collect();
        for _ in 0..1000 {
            pool.run(&|worker| {
                calls[worker].fetch_add(1, Ordering::Relaxed);
            });
        }
        assert!(calls.iter().all(|n| n.load(Ordering::Relaxed) == 1000));
    }
}

/// Pieces are claimed, as those who share work do it.
#[test]
fn shared_work_is_done_once_whoever_comes() {
    for pool in pools() {
        for round in 0..20_000usize {
            let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let pieces = round % 7;
            pool.share(&|_| {
                while next.fetch_add(1, Ordering::Relaxed) < pieces {
                    pause(round);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert_eq!(done.into_inner(), pieces);
        }
    }
}

#[test]
fn resting_workers_sleep_at_once_and_come_when_they_are_called() {
    // They would look for hours.
    let mut awake = SpinWait::NONE;
    awake.spins = u32::MAX;
    let pool = ThreadPool::with_spin_wait(2, Pinning::None, awake).unwrap();
    for _ in 0..3 {
        let calls = AtomicUsize::new(0);
        pool.run(&|_| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.into_inner(), 2);
        pool.rest();
        while !pool.shared.reports[0].asleep.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
}

/// A worker that is held up elsewhere: the caller does not wait for it, and it does not touch what it came late for.
#[test]
fn a_late_worker_is_left_out() {
    let pool = ThreadPool::new(Some(2)).unwrap();
    let held = lock(&pool.shared.gate);
    for _ in 0..50 {
        let calls = Mutex::new(Vec::new());
        pool.share(&|worker| calls.lock().unwrap().push(worker));
        assert_eq!(calls.into_inner().unwrap(), [0]);
    }
    drop(held);
    let calls = Mutex::new(Vec::new());
    pool.run(&|worker| calls.lock().unwrap().push(worker));
    let mut calls = calls.into_inner().unwrap();
    calls.sort_unstable();
    assert_eq!(calls, [0, 1]);
}

/// A worker that stops in the middle of each part, as one does whose processor is wanted elsewhere.
#[test]
fn a_worker_that_holds_the_others_up_is_suspended_until_it_is_quick_again() {
    let pool = ThreadPool::new(Some(2)).unwrap();
    let (slow, calls) = (AtomicBool::new(true), AtomicUsize::new(0));
    let run = |times: usize| {
        for _ in 0..times {
            pool.share(&|worker| {
                if worker == 1 {
                    calls.fetch_add(1, Ordering::Relaxed);
                    if slow.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                } else {
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
        }
        calls.swap(0, Ordering::Relaxed)
    };
    run(50);
    assert!(run(500) < 100, "it is seldom asked");
    slow.store(false, Ordering::Relaxed);
    let end = Instant::now() + Duration::from_secs(30);
    while run(50) < 25 {
        assert!(Instant::now() < end, "it does not come back");
    }
}

#[test]
fn there_are_as_many_workers_as_asked_for() {
    for workers in [1, 2, 5] {
        assert_eq!(ThreadPool::new(Some(workers)).unwrap().workers(), workers);
    }
    assert_eq!(ThreadPool::new(Some(0)).unwrap().workers(), 1);
    assert_eq!(
        ThreadPool::new(None).unwrap().workers(),
        std::thread::available_parallelism().unwrap().get()
    );
}

#[test]
fn parked_workers_wake_up() {
    let pool = ThreadPool::new(Some(3)).unwrap();
    let calls = AtomicUsize::new(0);
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(30));
        pool.run(&|_| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(calls.load(Ordering::Relaxed), 9);
}

#[test]
fn a_parked_caller_wakes_up() {
    let pool = ThreadPool::new(Some(3)).unwrap();
    let calls = AtomicUsize::new(0);
    for slow in 0..3 {
        pool.run(&|worker| {
            if worker == slow {
                std::thread::sleep(Duration::from_millis(30));
            }
            calls.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(calls.load(Ordering::Relaxed), 9);
}

/// Pauses of random length on both sides, around the length of the spin_wait: a wake-up that is lost hangs here.
#[test]
fn no_wake_up_is_lost() {
    const RUNS: usize = 100_000;
    let short = SpinWait::CROWDED;
    for (workers, spin_wait, runs) in [
        (2, short, RUNS),
        (2, SpinWait::NONE, RUNS),
        (4, short, RUNS / 4),
    ] {
        let pool = ThreadPool::with_spin_wait(workers, Pinning::None, spin_wait).unwrap();
        let calls = AtomicUsize::new(0);
        for run in 0..runs {
            pool.run(&|worker| {
                pause(run * workers + worker);
                calls.fetch_add(1, Ordering::Relaxed);
            });
            pause(usize::MAX / 2 + run);
        }
        assert_eq!(calls.load(Ordering::Relaxed), runs * workers);
    }
}

/// Many more workers than processors: everyone is late, and most sleep when a task comes.
#[test]
fn a_crowd_of_workers_does_everything_once_and_loses_no_wake_up() {
    for workers in [8, 16, 33, 64] {
        for spin_wait in [SpinWait::CROWDED, SpinWait::NONE] {
            let pool = ThreadPool::with_spin_wait(workers, Pinning::None, spin_wait).unwrap();
            let (calls, claimed) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let done: Vec<AtomicUsize> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
            const RUNS: usize = 60;
            for run in 0..RUNS {
                pool.run(&|worker| {
                    pause(run * workers + worker);
                    calls.fetch_add(1, Ordering::Relaxed);
                });
                claimed.store(0, Ordering::Relaxed);
                pool.share(&|worker| {
                    pause(usize::MAX / 3 + run * workers + worker);
                    while let Some(piece) = done.get(claimed.fetch_add(1, Ordering::Relaxed)) {
                        piece.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            assert_eq!(calls.load(Ordering::Relaxed), RUNS * workers);
            assert!(done.iter().all(|n| n.load(Ordering::Relaxed) == RUNS));
        }
    }
}

/// Mostly nothing, sometimes some microseconds, rarely a sleep.
fn pause(seed: usize) {
    let random = (seed as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(23);
    match random % 1024 {
        0..2 => std::thread::sleep(Duration::from_micros(50)),
        2..64 => (0..random >> 52).for_each(|_| std::hint::spin_loop()),
        64..128 => std::thread::yield_now(),
        _ => {}
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    let pool = ThreadPool::new(Some(2)).unwrap();
    for culprit in 0..2 {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            pool.run(&|worker| assert!(worker != culprit, "worker {worker} failed"));
        }))
        .unwrap_err();
        assert_eq!(
            panic.downcast_ref::<String>(),
            Some(&format!("worker {culprit} failed"))
        );
    }
    let calls = AtomicUsize::new(0);
    pool.run(&|_| {
        calls.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[test]
fn a_task_that_starts_another_is_refused() {
    let pool = ThreadPool::new(Some(2)).unwrap();
    let inner = Mutex::new(None);
    pool.run(&|worker| {
        if worker == 0 {
            let refused = catch_unwind(AssertUnwindSafe(|| pool.run(&|_| ()))).is_err();
            *inner.lock().unwrap() = Some(refused);
        }
    });
    assert_eq!(inner.into_inner().unwrap(), Some(true));
}

#[test]
fn a_second_caller_waits_for_the_first() {
    let pool = ThreadPool::new(Some(2)).unwrap();
    let (inside, runs) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..200 {
                    pool.run(&|worker| {
                        if worker == 0 {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            runs.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    });
                }
            });
        }
    });
    assert_eq!(runs.into_inner(), 600);
}

#[test]
fn workers_stay_on_their_processor_and_the_caller_goes_where_it_likes() {
    let before = affinity::allowed();
    let pool = ThreadPool::new(None).unwrap();
    let places = Mutex::new(Vec::new());
    pool.run(&|worker| places.lock().unwrap().push((worker, affinity::allowed())));
    let mut places = places.into_inner().unwrap();
    places.sort();
    match pool.pinning() {
        Pinning::Workers => {
            for (worker, place) in &places[1..] {
                assert_eq!(place[..], [before[*worker]]);
            }
        }
        Pinning::None => assert!(places.iter().all(|(_, place)| *place == before)),
    }
    assert_eq!(affinity::allowed(), before);
}

#[test]
fn a_dedicated_caller_gets_the_processor_that_is_left() {
    std::thread::spawn(|| {
        let before = affinity::allowed();
        let pool = ThreadPool::new(None).unwrap();
        pool.pin_caller().unwrap();
        match pool.pinning() {
            Pinning::Workers => assert_eq!(affinity::allowed(), before[..1]),
            Pinning::None => assert_eq!(affinity::allowed(), before),
        }
    })
    .join()
    .unwrap();
}

/// While other programs have a worker's processor, they may want the caller's too: it must be free to move.
#[test]
fn a_dedicated_caller_may_move_while_a_worker_is_suspended() {
    std::thread::spawn(|| {
        let before = affinity::allowed();
        let pool = ThreadPool::new(None).unwrap();
        if pool.pinning() == Pinning::None || pool.workers() == 1 {
            return;
        }
        pool.pin_caller().unwrap();
        let suspend = |suspended: bool| {
            let mut standings = lock(&pool.standings);
            let standing = &mut standings[0];
            if suspended {
                let time = Duration::from_secs(60);
                standing.learn(Instant::now() + time, time, time);
            } else {
                standing.resume();
            }
        };
        suspend(true);
        pool.share(&|_| {});
        assert_eq!(affinity::allowed(), before);
        suspend(false);
        pool.share(&|_| {});
        assert_eq!(affinity::allowed(), before[..1]);
    })
    .join()
    .unwrap();
}
