package logical

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/mode"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Metrics are the metrics of all loops of a factory, each series with the label loop. They register
// nowhere by themselves.
type Metrics struct {
	commits     *prometheus.CounterVec
	failures    *prometheus.CounterVec
	lastCommit  *prometheus.GaugeVec
	txs         *prometheus.CounterVec
	mutations   *prometheus.CounterVec
	rejected    *prometheus.CounterVec
	reconnects  *prometheus.CounterVec
	leasesLost  *prometheus.CounterVec
	switches    *prometheus.CounterVec
	backfilling *prometheus.GaugeVec
	live        *liveCollector
}

// NewMetrics makes the metrics and registers them with reg, which may be nil.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"loop"}, labels...))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"loop"})
	}
	m := &Metrics{
		commits:     counter("logical_commit_success_total", "Target transactions that were committed."),
		failures:    counter("logical_commit_failure_total", "Attempts at a target transaction that failed, by class of error.", "class"),
		lastCommit:  gauge("logical_last_commit_seconds", "When the target last committed, in seconds since the Unix epoch."),
		txs:         counter("logical_transactions_total", "Source transactions that have landed in the target."),
		mutations:   counter("logical_mutations_total", "Mutations that have landed in the target."),
		rejected:    counter("logical_rejected_total", "Mutations that the target rejected for good, by what became of them.", "policy"),
		reconnects:  counter("logical_source_reconnects_total", "How often reading the source was begun again."),
		leasesLost:  counter("logical_lease_lost_total", "How often the lease of the loop was lost: to another process, or with an answer of the target."),
		switches:    counter("logical_mode_switches_total", "Mode switches, by reason.", "reason"),
		backfilling: gauge("logical_backfill_status", "1 while the loop is in fan mode, 0 otherwise."),
		live:        newLiveCollector(),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range m.collectors() {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.commits, m.failures, m.lastCommit, m.txs, m.mutations, m.rejected, m.reconnects, m.leasesLost,
		m.switches, m.backfilling, m.live,
	}
}

// of returns the metrics of one loop, whose series exist from then on.
func (m *Metrics) of(l *Loop) *loopMetrics {
	lm := &loopMetrics{
		all: m, name: l.name,
		commits: m.commits.WithLabelValues(l.name), lastCommit: m.lastCommit.WithLabelValues(l.name),
		txs: m.txs.WithLabelValues(l.name), mutations: m.mutations.WithLabelValues(l.name),
		reconnects: m.reconnects.WithLabelValues(l.name), leasesLost: m.leasesLost.WithLabelValues(l.name),
		backfilling: m.backfilling.WithLabelValues(l.name),
	}
	m.live.add(l)
	return lm
}

// loopMetrics are the metrics of one loop.
type loopMetrics struct {
	all  *Metrics
	name string

	commits, txs, mutations, reconnects, leasesLost prometheus.Counter
	lastCommit, backfilling                         prometheus.Gauge
}

func (m *loopMetrics) landed(now time.Time, txs, rows int) {
	m.commits.Inc()
	m.txs.Add(float64(txs))
	m.mutations.Add(float64(rows))
	m.lastCommit.Set(float64(now.UnixMilli()) / 1e3)
}

func (m *loopMetrics) failed(class logical.Class) {
	m.all.failures.WithLabelValues(m.name, class.String()).Inc()
}

func (m *loopMetrics) rejected(n int, policy logical.RejectPolicy) {
	m.all.rejected.WithLabelValues(m.name, string(policy)).Add(float64(n))
}

func (m *loopMetrics) switches(reason mode.Reason) {
	m.all.switches.WithLabelValues(m.name, string(reason)).Inc()
}

func (m *loopMetrics) mode(now mode.Mode) {
	fan := 0.0
	if now.Fan() {
		fan = 1
	}
	m.backfilling.Set(fan)
}

func (m *loopMetrics) reconnected() { m.reconnects.Inc() }
func (m *loopMetrics) leaseLost()   { m.leasesLost.Inc() }

// remove takes the loop's series away.
func (m *loopMetrics) remove() {
	m.all.live.remove(m.name)
	labels := prometheus.Labels{"loop": m.name}
	for _, c := range m.all.collectors() {
		if vec, ok := c.(interface {
			DeletePartialMatch(prometheus.Labels) int
		}); ok {
			vec.DeletePartialMatch(labels)
		}
	}
}
