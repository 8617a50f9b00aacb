//! Metrics of a running service.

use std::net::SocketAddr;

use crate::load::HttpConnection;

/// Fetches the metrics at the internal listener of a service.
///
/// # Errors
/// Returns an error if the service does not answer.
pub async fn fetch(internal: SocketAddr) -> anyhow::Result<String> {
    let mut connection = HttpConnection::open(internal).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {internal}\r\n\r\n");
    let response = connection.exchange(request.as_bytes()).await?;
    Ok(String::from_utf8_lossy(response.body).into_owned())
}

/// Sums the series of a metric whose labels contain all of `labels`.
pub fn sum(metrics: &str, name: &str, labels: &[&str]) -> f64 {
    let values = metrics.lines().filter_map(|line| {
        let (series, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
        // Another metric may have a longer name.
        let is_named = series.is_empty() || series.starts_with('{');
        let is_labelled = labels.iter().all(|label| series.contains(label));
        value
            .parse::<f64>()
            .ok()
            .filter(|_| is_named && is_labelled)
    });
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn series_of_a_metric_are_added_by_label() {
        let metrics = "# TYPE hits_total counter\n\
                       hits_total{cache=\"a\",result=\"hit\"} 6\n\
                       hits_total{cache=\"a\",result=\"miss\"} 1\n\
                       hits_total{cache=\"b\",result=\"hit\"} 100\n\
                       hits_total_more{cache=\"a\"} 1000\n\
                       waiting 5\n";
        let near = |left: f64, right: f64| (left - right).abs() < f64::EPSILON;
        assert!(near(sum(metrics, "hits_total", &[]), 107.0));
        assert!(near(sum(metrics, "hits_total", &["\"a\""]), 7.0));
        assert!(near(sum(metrics, "hits_total", &["\"a\"", "\"hit\""]), 6.0));
        assert!(near(sum(metrics, "waiting", &[]), 5.0));
        assert!(near(sum(metrics, "absent", &[]), 0.0));
    }
}
