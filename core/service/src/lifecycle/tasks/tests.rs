//! The stages of a stop, and failures of tasks.

use std::sync::{
    Mutex,
    atomic::{AtomicU32, Ordering},
};

use super::*;

#[tokio::test]
async fn ended_task_starts_the_shutdown() {
    let mut tasks = Tasks::new(CancellationToken::new());
    let shutdown = tasks.shutdown();
    tasks.spawn_essential("short", async { Ok(()) });
    tasks.spawn_essential("long", async move {
        shutdown.cancelled().await;
        Ok(())
    });
    let error = tasks.join().await.unwrap_err();
    assert_eq!(error.to_string(), "task `short` ended by itself");
}

#[tokio::test]
async fn until_drained_tasks_end_last() {
    let mut tasks = Tasks::new(CancellationToken::new());
    let (shutdown, drained) = (tasks.shutdown(), tasks.drained());
    let (answer, question) = oneshot::channel();
    tasks.spawn_essential("asks", async move {
        shutdown.cancelled().await;
        Ok(question.await?)
    });
    let shutdown = tasks.shutdown();
    tasks.spawn_until_drained("answers", async move {
        shutdown.cancelled().await;
        anyhow::ensure!(!drained.is_cancelled(), "a task still waits for the answer");
        answer.send(()).expect("the test waits for the answer");
        drained.cancelled().await;
        Ok(())
    });
    tasks.shutdown().cancel();
    tasks.join().await.unwrap();
}

#[tokio::test]
async fn a_panic_is_a_failure() {
    let mut tasks = Tasks::new(CancellationToken::new());
    tasks.spawn_essential("panics", async { panic!("on purpose") });
    assert_eq!(
        tasks.join().await.unwrap_err().to_string(),
        "task `panics` panicked; the message of the panic is above"
    );
}

#[tokio::test]
async fn panic_on_a_thread_is_a_failure() {
    let mut tasks = Tasks::new(CancellationToken::new());
    tasks.spawn_essential_on_thread("panics", async { panic!("on purpose") });
    let error = tasks.join().await.unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "task `panics` failed: the task panicked; the message of the panic is above"
    );
}

#[tokio::test]
async fn task_on_a_thread_runs_there_until_the_shutdown() {
    let mut tasks = Tasks::new(CancellationToken::new());
    let shutdown = tasks.shutdown();
    let (send_name, name) = oneshot::channel();
    tasks.spawn_essential_on_thread("obedient", async move {
        let name = thread::current().name().map(ToOwned::to_owned);
        send_name.send(name).expect("the test waits for the name");
        shutdown.cancelled().await;
        Ok(())
    });
    assert_eq!(name.await.unwrap().as_deref(), Some("obedient"));
    tasks.shutdown().cancel();
    tasks.join().await.unwrap();
}

#[tokio::test]
async fn dropped_tasks_end_the_threads() {
    let mut tasks = Tasks::new(CancellationToken::new());
    let (begin, is_running) = oneshot::channel();
    // Dropped with the task.
    let (held, dropped) = oneshot::channel::<()>();
    tasks.spawn_essential_on_thread("endless", async move {
        begin.send(()).expect("the test waits for the begin");
        std::future::pending::<()>().await;
        drop(held);
        Ok(())
    });
    is_running.await.unwrap();
    drop(tasks);
    assert!(dropped.await.is_err(), "nothing was sent");
}

#[tokio::test]
async fn failed_housekeeping_is_started_again() {
    let mut tasks = Tasks::new(CancellationToken::new());
    let shutdown = tasks.shutdown();
    let runs = AtomicU32::new(0);
    tasks.spawn_housekeeping("fails", move |until| {
        let (run, shutdown) = (runs.fetch_add(1, Ordering::Relaxed), shutdown.clone());
        async move {
            match run {
                0 => panic!("on purpose"),
                1 => anyhow::bail!("on purpose"),
                2 => return Ok(()),
                _ => shutdown.cancel(),
            }
            until.cancelled().await;
            Ok(())
        }
    });
    tasks.join().await.unwrap();
}

#[tokio::test]
async fn housekeeping_until_drained_ends_after_requests() {
    let mut tasks = Tasks::new(CancellationToken::new());
    let shutdown = tasks.shutdown();
    let (answer, request) = oneshot::channel();
    tasks.spawn_essential("request", async move {
        shutdown.cancelled().await;
        Ok(request.await?)
    });
    let shutdown = tasks.shutdown();
    let answer = Mutex::new(Some(answer));
    tasks.spawn_housekeeping_until_drained("fails", move |drained| {
        let answer = answer.lock().unwrap().take();
        let shutdown = shutdown.clone();
        async move {
            if !shutdown.is_cancelled() {
                shutdown.cancel();
                anyhow::ensure!(!drained.is_cancelled(), "the request still waits");
                answer.expect("the first run has it").send(()).ok();
                panic!("on purpose");
            }
            drained.cancelled().await;
            Ok(())
        }
    });
    tasks.join().await.unwrap();
}

#[tokio::test]
async fn housekeeping_until_flushed_ends_last() {
    let mut tasks = Tasks::new(CancellationToken::new());
    let (drained, flushed) = (tasks.drained(), tasks.flushed());
    let (stored, counted) = oneshot::channel();
    let counted = Mutex::new(Some(counted));
    tasks.spawn_housekeeping_until_flushed("counts", move |flushed| {
        let counted = counted.lock().unwrap().take();
        async move {
            counted.expect("it runs once").await?;
            flushed.cancelled().await;
            Ok(())
        }
    });
    let stored = Mutex::new(Some(stored));
    tasks.spawn_housekeeping_until_drained("stores", move |drained| {
        let (stored, flushed) = (stored.lock().unwrap().take(), flushed.clone());
        async move {
            drained.cancelled().await;
            assert!(
                !flushed.is_cancelled(),
                "the request's work is not stored yet"
            );
            stored.expect("it runs once").send(()).ok();
            Ok(())
        }
    });
    let shutdown = tasks.shutdown();
    tasks.spawn_essential("request", async move {
        shutdown.cancelled().await;
        anyhow::ensure!(!drained.is_cancelled(), "the request still runs");
        Ok(())
    });
    tasks.shutdown().cancel();
    tasks.join().await.unwrap();
}

#[tokio::test]
async fn stop_is_bounded_in_every_stage() {
    for (outlives_flush, time_max) in [(false, "20ms"), (true, "50ms")] {
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.stop_times = StopTimes {
            housekeeping: Duration::from_millis(10),
            drain: Duration::from_millis(20),
            after_flush: Duration::from_millis(30),
        };
        if outlives_flush {
            tasks.spawn_housekeeping_until_flushed("stuck", |_| std::future::pending());
        } else {
            tasks.spawn_housekeeping_until_drained("stuck", |_| std::future::pending());
        }
        tasks.shutdown().cancel();
        let error = tasks.join().await.unwrap_err().to_string();
        assert_eq!(
            error,
            format!("tasks did not end within {time_max}: `stuck`")
        );
    }
}

#[tokio::test]
async fn stuck_housekeeping_does_not_fail_the_stop() {
    let mut tasks = Tasks::new(CancellationToken::new());
    tasks.stop_times.housekeeping = Duration::from_millis(10);
    tasks.spawn_housekeeping("stuck", |_| std::future::pending());
    let flushed = tasks.flushed();
    let store = move |drained: CancellationToken| {
        let flushed = flushed.clone();
        async move {
            drained.cancelled().await;
            anyhow::ensure!(!flushed.is_cancelled(), "nothing was stored");
            Ok(())
        }
    };
    tasks.spawn_housekeeping_until_drained("stores", store);
    tasks.shutdown().cancel();
    tasks.join().await.unwrap();
}

#[tokio::test]
async fn ending_after_the_shutdown_is_a_success() {
    let mut tasks = Tasks::new(CancellationToken::new());
    let shutdown = tasks.shutdown();
    shutdown.cancel();
    tasks.spawn_essential("obedient", async move {
        shutdown.cancelled().await;
        Ok(())
    });
    assert!(tasks.join().await.is_ok());
}
