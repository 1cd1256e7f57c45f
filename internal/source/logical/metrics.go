package logical

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/meter"
	"github.com/tailrace-cdc/tailrace/internal/source/logical/mode"
	"github.com/tailrace-cdc/tailrace/internal/util/budget"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Metrics shows the loops of a factory, each series with the label loop, and what they hold together. The loops are asked when
// metrics are gathered, so that staleness grows also while a loop is stuck, and a loop that is gone has no
// series. They register nowhere by themselves.
type Metrics struct {
	mu    sync.Mutex
	loops map[string]*Loop
	pool  *budget.Pool // of the factory; nil before there is one
}

var (
	totalDesc = prometheus.NewDesc("logical_total_bytes_in_flight", "Bytes of mutations that all loops hold together.", nil, nil)
	limitDesc = prometheus.NewDesc("logical_total_bytes_in_flight_limit", "The most that all loops together may hold.", nil, nil)
)

// NewMetrics makes the metrics and registers them with reg, which may be nil.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{loops: map[string]*Loop{}}
	if reg == nil {
		return m, nil
	}
	return m, reg.Register(m)
}

// share shows what the loops share.
func (m *Metrics) share(pool *budget.Pool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pool = pool
}

// add shows a loop. One of the same name, which must have ended, is shown no more.
func (m *Metrics) add(l *Loop) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loops[l.name] = l
}

func (m *Metrics) remove(l *Loop) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loops[l.name] == l {
		delete(m.loops, l.name)
	}
}

// A metric is a family of series of each loop.
type metric struct {
	name, help string
	kind       prometheus.ValueType // not of histograms
	label      string               // besides the loop's
	// value returns the only value; each, the values by label; histogram, what it says.
	value     func(*figures) (float64, bool)
	each      func(*figures) map[string]float64
	histogram func(*figures) meter.Histogram
}

// figures are what is known of a loop when metrics are gathered.
type figures struct {
	Stats
	meter.Figures
	config logical.Config
}

func (m *metric) desc() *prometheus.Desc {
	labels := []string{"loop"}
	if m.label != "" {
		labels = append(labels, m.label)
	}
	return prometheus.NewDesc(m.name, m.help, labels, nil)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- totalDesc
	ch <- limitDesc
	for i := range families {
		ch <- families[i].desc()
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	loops, pool := slices.Collect(maps.Values(m.loops)), m.pool
	m.mu.Unlock()
	if pool != nil {
		now, _ := pool.Usage()
		ch <- prometheus.MustNewConstMetric(totalDesc, gauge, float64(now))
		ch <- prometheus.MustNewConstMetric(limitDesc, gauge, float64(pool.Size()))
	}
	all := make([]figures, len(loops))
	for i, l := range loops {
		all[i] = figures{l.Stats(), l.meter.Figures(), l.config}
	}
	for i := range families {
		family := &families[i]
		desc := family.desc()
		for n, l := range loops {
			family.collect(ch, desc, l.name, &all[n])
		}
	}
}

func (m *metric) collect(ch chan<- prometheus.Metric, desc *prometheus.Desc, loop string, f *figures) {
	switch {
	case m.value != nil:
		if v, known := m.value(f); known {
			ch <- prometheus.MustNewConstMetric(desc, m.kind, v, loop)
		}
	case m.each != nil:
		for label, v := range m.each(f) {
			ch <- prometheus.MustNewConstMetric(desc, m.kind, v, loop, label)
		}
	default:
		h := m.histogram(f)
		ch <- prometheus.MustNewConstHistogram(desc, h.Count, h.Sum, h.Buckets, loop)
	}
}

func integer[T int | int64](of func(*figures) T) func(*figures) (float64, bool) {
	return func(f *figures) (float64, bool) { return float64(of(f)), true }
}

func yes(of func(*figures) bool) func(*figures) (float64, bool) {
	return func(f *figures) (float64, bool) { return number(of(f)), true }
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// moment returns seconds since the Unix epoch, for a time that is known.
func moment(of func(*figures) time.Time) func(*figures) (float64, bool) {
	return func(f *figures) (float64, bool) {
		at := of(f)
		return float64(at.UnixMilli()) / 1e3, !at.IsZero()
	}
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

var families = []metric{
	{
		name: "logical_state", kind: gauge, label: "state", help: "1 for what the loop is doing.",
		each: func(f *figures) map[string]float64 { return oneOf(f.State, states()) },
	},
	{
		name: "logical_mode", kind: gauge, label: "mode", help: "1 for the mode in force.",
		each: func(f *figures) map[string]float64 { return oneOf(f.Mode.String(), modes()) },
	},
	{
		name: "logical_mode_seconds_total", kind: counter, label: "mode", help: "Time that was spent in each mode.",
		each: func(f *figures) map[string]float64 {
			return labelled(f.InMode, mode.Mode.String, time.Duration.Seconds)
		},
	},
	{
		name: "logical_mode_switches_total", kind: counter, label: "reason", help: "Mode switches, by reason.",
		each: func(f *figures) map[string]float64 {
			return labelled(f.Switches, func(r mode.Reason) string { return string(r) }, func(n int64) float64 { return float64(n) })
		},
	},
	{
		name: "logical_backfill_status", kind: gauge, help: "1 while the loop is in fan mode, 0 otherwise.",
		value: yes(func(f *figures) bool { return f.Mode.Fan() }),
	},
	{
		name: "logical_serial_too_slow", kind: gauge, help: "1 while serial mode cannot keep up with the source: three falls back to fan mode within an hour.",
		value: yes(func(f *figures) bool { return f.SerialTooSlow }),
	},
	{
		name: "logical_staleness_seconds", kind: gauge, help: "Age of the oldest source transaction that is not in the target; absent while it is not known.",
		value: func(f *figures) (float64, bool) { return f.Staleness.Seconds(), f.StalenessKnown },
	},
	{
		name: "logical_source_transactions_total", kind: counter, help: "Source transactions that were read, those that were read again included.",
		value: integer(func(f *figures) int64 { return f.SourceTransactions }),
	},
	{
		name: "logical_source_rollbacks_total", kind: counter, help: "How often what had been read and had not landed was given up.",
		value: integer(func(f *figures) int64 { return f.SourceRollbacks }),
	},
	{
		name: "logical_source_reconnects_total", kind: counter, help: "How often reading the source was begun again.",
		value: integer(func(f *figures) int64 { return f.Reconnects }),
	},
	{
		name: "logical_transactions_total", kind: counter, help: "Source transactions that have landed in the target.",
		value: integer(func(f *figures) int64 { return f.Transactions }),
	},
	{
		name: "logical_mutations_total", kind: counter, help: "Mutations that have landed in the target.",
		value: integer(func(f *figures) int64 { return f.Mutations }),
	},
	{
		name: "logical_commit_success_total", kind: counter, help: "Target transactions that were committed.",
		value: integer(func(f *figures) int64 { return f.Commits }),
	},
	{
		name: "logical_commit_failure_total", kind: counter, label: "class", help: "Calls at the target that failed, by class of error.",
		each: func(f *figures) map[string]float64 {
			return labelled(f.Failures, logical.Class.String, func(n int64) float64 { return float64(n) })
		},
	},
	{
		name: "logical_rollback_total", kind: counter, help: "Target transactions that were given up.",
		value: integer(func(f *figures) int64 { return f.Rollbacks }),
	},
	{
		name: "logical_fence_total", kind: counter, help: "How often older target transactions of the loop were fenced before something was applied again.",
		value: integer(func(f *figures) int64 { return f.Fences }),
	},
	{
		name: "logical_batch_mutations", help: "Mutations of each committed target transaction.",
		histogram: func(f *figures) meter.Histogram { return f.Rows },
	},
	{
		name: "logical_batch_seconds", help: "Time from begin to commit of each committed target transaction.",
		histogram: func(f *figures) meter.Histogram { return f.Seconds },
	},
	{
		name: "logical_last_commit_seconds", kind: gauge, help: "When the target last committed, in seconds since the Unix epoch.",
		value: moment(func(f *figures) time.Time { return f.LastCommit }),
	},
	{
		name: "logical_consistent_point_seconds", kind: gauge, help: "When the consistent point last advanced in the target, in seconds since the Unix epoch.",
		value: moment(func(f *figures) time.Time { return f.PointAt }),
	},
	{
		name: "logical_consistent_point_offset", kind: gauge, help: "The consistent point as a number that grows with the source's history, where the source has one.",
		value: func(f *figures) (float64, bool) {
			stamp, ok := f.Point.(logical.OffsetStamp)
			if !ok {
				return 0, false
			}
			return float64(stamp.Offset()), true
		},
	},
	{
		name: "logical_bytes_in_flight", kind: gauge, help: "Bytes of mutations that were read and are not yet in the target.",
		value: integer(func(f *figures) int64 { return f.BytesInFlight }),
	},
	{
		name: "logical_budget_waits_total", kind: counter, help: "How often reading had to wait because too many bytes were in flight.",
		value: integer(func(f *figures) int64 { return f.BudgetWaits }),
	},
	{
		name: "logical_lease_lost_total", kind: counter, help: "How often the lease of the loop was lost: to another process, or with an answer of the target.",
		value: integer(func(f *figures) int64 { return f.LeasesLost }),
	},
	{
		name: "logical_rejected_total", kind: counter, label: "policy", help: "Mutations that the target rejected for good, by what became of them: deadLetter is kept, discard is lost.",
		each: func(f *figures) map[string]float64 {
			return map[string]float64{string(f.config.OnReject): float64(f.Rejected)}
		},
	},
	{
		name: "logical_dead_letters", kind: gauge, help: "Dead letters that are kept.",
		value: integer(func(f *figures) int64 { return f.Letters }),
	},
	{
		name: "logical_dead_letter_bytes", kind: gauge, help: "Size of the dead letters that are kept; the stream stops at its bound.",
		value: integer(func(f *figures) int64 { return f.LetterBytes }),
	},
}

func states() []State {
	return []State{StateStarting, StateRunning, StateRetrying, StateRejecting, StateStopped}
}

func modes() []string {
	var names []string
	for _, m := range mode.All() {
		names = append(names, m.String())
	}
	return names
}

// oneOf gives one of all labels the value 1, and the others 0.
func oneOf[T ~string](is T, all []T) map[string]float64 {
	values := map[string]float64{}
	for _, one := range all {
		values[strings.ToLower(string(one))] = number(one == is)
	}
	return values
}

func labelled[K comparable, V any](of map[K]V, label func(K) string, value func(V) float64) map[string]float64 {
	values := make(map[string]float64, len(of))
	for k, v := range of {
		values[label(k)] = value(v)
	}
	return values
}
