package influx

import "github.com/prometheus/client_golang/prometheus"

// metrics are the ones of a target that are not facts.
type metrics struct {
	errors *prometheus.CounterVec
	took   prometheus.Histogram
}

const prefix = "replications_queue_remote_write_"

func newMetrics(id string) metrics {
	labels := prometheus.Labels{"replicationID": id}
	m := metrics{
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "errors", ConstLabels: labels,
			Help: "Writes that the remote did not accept, by the status of its answer; 0 where there was none.",
		}, []string{"code"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "duration_seconds", ConstLabels: labels,
			Help:    "How long writes waited for the remote's answer.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
	}
	m.errors.WithLabelValues("0") // so that there is something to watch from the start
	return m
}

// collector shows a target's traffic. Each target has one of its own, so that its series end with it.
type collector struct {
	t *Target

	requests, points, bytes, setAside, inFlight, success, size *prometheus.Desc
}

// Collector returns the metrics of this target, with its ID as label replicationID. Whoever registers it
// unregisters it when the stream ends.
func (t *Target) Collector() prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+name, help, nil, prometheus.Labels{"replicationID": t.cfg.ID})
	}
	return &collector{
		t:        t,
		requests: desc("requests_total", "Writes to the remote."),
		points:   desc("points_sent", "Points that the remote has accepted; some of them perhaps twice."),
		bytes:    desc("bytes_sent", "Bytes of bodies that the remote has accepted, compressed where they were."),
		setAside: desc("bytes_set_aside", "Bytes of lines that the remote rejected for good and that were kept as dead letters."),
		inFlight: desc("in_flight", "Writes that wait for the remote's answer."),
		success:  desc("last_success_seconds", "When the remote last accepted a write, in seconds since the Unix epoch; 0 if never."),
		size:     desc("request_bytes", "How large a request may be at present, before compression."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	c.t.facts.metrics.errors.Describe(ch)
	c.t.facts.metrics.took.Describe(ch)
	for _, d := range []*prometheus.Desc{c.requests, c.points, c.bytes, c.setAside, c.inFlight, c.success, c.size} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.t.facts.metrics.errors.Collect(ch)
	c.t.facts.metrics.took.Collect(ch)
	f := c.t.Facts()
	show := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(d, kind, v)
	}
	show(c.requests, prometheus.CounterValue, float64(f.Requests))
	show(c.points, prometheus.CounterValue, float64(f.PointsSent))
	show(c.bytes, prometheus.CounterValue, float64(f.BytesSent))
	show(c.setAside, prometheus.CounterValue, float64(f.BytesSetAside))
	show(c.inFlight, prometheus.GaugeValue, float64(f.InFlight))
	success := 0.0
	if !f.LastSuccessAt.IsZero() {
		success = float64(f.LastSuccessAt.UnixMilli()) / 1e3
	}
	show(c.success, prometheus.GaugeValue, success)
	show(c.size, prometheus.GaugeValue, float64(f.RequestBytes))
}
