// Package tally counts what SQL targets do to points that nobody may miss: the process has one Tally, which
// all of its targets share, and shows it among its metrics.
package tally

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// A Tally holds the counts since the start of the process. Its zero value is ready, and its fields may be
// used concurrently.
type Tally struct {
	// Collisions are points that were merged with another although their times differ, because they went
	// to a table of the user's that has no column for nanoseconds.
	Collisions atomic.Int64
	// Ignored are values that were left out because the user's table has no column for them.
	Ignored atomic.Int64
	// Overflowed are values that went into the overflow column, because the table, or the number of
	// tables, has reached its limit.
	Overflowed atomic.Int64
}

// Register returns the tally that the registry shows, and makes it if there is none; a nil registry shows
// nothing.
func Register(reg prometheus.Registerer) (*Tally, error) {
	t := &Tally{}
	if reg == nil {
		return t, nil
	}
	err := reg.Register(collector{t})
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if other, ok := known.ExistingCollector.(collector); ok {
			return other.tally, nil
		}
	}
	return t, err
}

type collector struct{ tally *Tally }

type metric struct {
	desc  *prometheus.Desc
	value *atomic.Int64
}

func (c collector) metrics() []metric {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc("target_"+name, help, nil, nil) }
	return []metric{
		{desc("collisions_total", "Points merged with another of their batch whose time the table cannot tell from theirs."), &c.tally.Collisions},
		{desc("ignored_values_total", "Values left out because the table has no column for them."), &c.tally.Ignored},
		{desc("overflowed_values_total", "Values that went into the overflow column of a table."), &c.tally.Overflowed},
	}
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics() {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.metrics() {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.value.Load()))
	}
}
