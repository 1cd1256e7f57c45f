package influxlogical

import "github.com/prometheus/client_golang/prometheus"

// collector shows the queues by the names that InfluxDB's replication uses, with the label
// replicationID. A stream's series end with the stream.
type collector struct {
	streams *Streams

	points, bytes, failedWrites, failedPoints, failedBytes, pending, disk, lost, filtered, oldest, syncs, noted *prometheus.Desc
}

// Collector returns the metrics of the queues.
func (s *Streams) Collector() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("replications_queue_"+name, help, append([]string{"replicationID"}, labels...), nil)
	}
	return &collector{
		streams:      s,
		points:       desc("total_points_queued", "Points that were made durable in the queue."),
		bytes:        desc("total_bytes_queued", "Bytes that were made durable in the queue, as stored."),
		failedWrites: desc("writes_failed_to_queue", "Writes that could not be made durable, or were refused because the queue is full.", "reason"),
		failedPoints: desc("points_failed_to_queue", "Points of writes that could not be made durable, or were refused because the queue is full."),
		failedBytes:  desc("bytes_failed_to_queue", "Bytes of those points, as they would have been stored."),
		pending:      desc("current_bytes_queued", "Bytes in the queue that are not yet in the target."),
		disk:         desc("disk_bytes", "Bytes of the queue's files."),
		syncs:        desc("syncs_total", "How often the queue's files were synced to the disk."),
		lost:         desc("points_lost", "Points that were dropped or damaged, by reason: declared, never silent.", "reason"),
		noted:        desc("notices_total", "How often since the start something about the stream's position had to be said: gap, queue replaced, queue behind its target, queue was missing.", "notice"),
		filtered:     desc("points_filtered", "Points that the stream's filter kept back: they were not queued for it."),
		oldest:       desc("oldest_unsent_seconds", "When the oldest write that is not yet in the target was queued, in seconds since the Unix epoch; 0 if there is none."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.points, c.bytes, c.failedWrites, c.failedPoints, c.failedBytes, c.pending, c.disk, c.lost, c.filtered, c.oldest, c.syncs, c.noted} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, stream := range c.streams.All() {
		for i, notice := range notices {
			ch <- prometheus.MustNewConstMetric(c.noted, prometheus.CounterValue, float64(stream.noted[i].Load()), stream.ID(), string(notice))
		}
		q := stream.queue.Load()
		if q == nil {
			continue
		}
		st := q.Stats()
		metric := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, kind, value, append([]string{stream.ID()}, labels...)...)
		}
		metric(c.points, prometheus.CounterValue, float64(st.AppendedPoints))
		metric(c.bytes, prometheus.CounterValue, float64(st.AppendedBytes))
		metric(c.failedWrites, prometheus.CounterValue, float64(st.FailedAppends), "error")
		metric(c.failedWrites, prometheus.CounterValue, float64(st.Refused), "full")
		metric(c.failedPoints, prometheus.CounterValue, float64(stream.failedPoints.Load()))
		metric(c.failedBytes, prometheus.CounterValue, float64(stream.failedBytes.Load()))
		metric(c.pending, prometheus.GaugeValue, float64(st.UnsentBytes))
		metric(c.disk, prometheus.GaugeValue, float64(st.DiskBytes))
		metric(c.filtered, prometheus.CounterValue, float64(stream.filtered.Load()))
		metric(c.oldest, prometheus.GaugeValue, float64(st.OldestUnsent)/1e9)
		metric(c.syncs, prometheus.CounterValue, float64(st.Syncs))
		for reason, total := range st.Lost {
			metric(c.lost, prometheus.CounterValue, float64(total.Points), string(reason))
		}
	}
}

// remoteCollector shows what the streams' targets show of their own. It describes nothing, because that
// comes and goes with them.
type remoteCollector struct{ streams *Streams }

// RemoteCollector returns the metrics of targets that belong to one stream each.
func (s *Streams) RemoteCollector() prometheus.Collector { return remoteCollector{s} }

// Describe implements prometheus.Collector.
func (remoteCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c remoteCollector) Collect(ch chan<- prometheus.Metric) {
	for _, stream := range c.streams.All() {
		if target, ok := kept[interface{ Collector() prometheus.Collector }](stream); ok {
			target.Collector().Collect(ch)
		}
	}
}
