package logical

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/mode"
)

// liveCollector asks the loops when metrics are gathered, so that staleness grows also while a loop
// is stuck.
type liveCollector struct {
	staleness, mode, bytes, pointTime *prometheus.Desc

	mu    sync.Mutex
	loops map[string]*Loop
}

func newLiveCollector() *liveCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"loop"}, labels...), nil)
	}
	return &liveCollector{
		staleness: desc("logical_staleness_seconds", "Age of the oldest source transaction that is not in the target; absent while it is not known."),
		mode:      desc("logical_mode", "1 for the mode in force.", "mode"),
		bytes:     desc("logical_bytes_in_flight", "Bytes of mutations that were read and are not yet in the target."),
		pointTime: desc("logical_consistent_point_seconds", "When the consistent point last advanced in the target, in seconds since the Unix epoch."),
		loops:     map[string]*Loop{},
	}
}

func (c *liveCollector) add(l *Loop) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loops[l.name] = l
}

func (c *liveCollector) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.loops, name)
}

// Describe implements prometheus.Collector.
func (c *liveCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.staleness
	ch <- c.mode
	ch <- c.bytes
	ch <- c.pointTime
}

// Collect implements prometheus.Collector.
func (c *liveCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	loops := make([]*Loop, 0, len(c.loops))
	for _, l := range c.loops {
		loops = append(loops, l)
	}
	c.mu.Unlock()
	for _, l := range loops {
		gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{l.name}, labels...)...)
		}
		s := l.Status()
		if s.StalenessKnown {
			gauge(c.staleness, s.Staleness.Seconds())
		}
		for _, m := range mode.All() {
			on := 0.0
			if m == s.Mode {
				on = 1
			}
			gauge(c.mode, on, m.String())
		}
		gauge(c.bytes, float64(l.budget.Used()))
		if !s.PointAt.IsZero() {
			gauge(c.pointTime, float64(s.PointAt.UnixMilli())/1e3)
		}
	}
}
