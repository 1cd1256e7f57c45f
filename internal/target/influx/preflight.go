package influx

import (
	"context"
	"fmt"

	"github.com/tailrace-cdc/tailrace/internal/target/preflight"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Preflight looks whether the remote could be used: whether it is there, what it is, and whether it takes a
// write of nothing. An error is a mistake in the configuration.
func Preflight(ctx context.Context, cfg Config) (preflight.Report, error) {
	t, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.Close() }() // nothing is in flight
	var report preflight.Report
	if t.cfg.Token+t.cfg.Username != "" && t.base.Scheme == "http" && compresses(CompressAuto, t.base.Hostname()) {
		report.Add("encryption", preflight.Warning, "the token travels in the clear", "use https, unless the network is your own")
	}
	kind, err := t.probe(ctx)
	if err != nil {
		report.Add("connection", preflight.Failed, err.Error(), advice(err))
		report.Add("write", preflight.Skipped, "it needs a connection", "")
		return report, nil
	}
	_, version, known := t.peer.get()
	found := fmt.Sprintf("an InfluxDB, version %s; its API %s is used", t.plain(version), kind)
	if !known {
		found = fmt.Sprintf("something that does not say what it is; API %s is used", kind)
	}
	report.Add("connection", preflight.OK, found, "")
	if err := t.Check(ctx); err != nil {
		report.Add("write", preflight.Failed, err.Error(), advice(err))
		return report, nil
	}
	report.Add("write", preflight.OK, "bucket "+t.cfg.Bucket+" takes writes", "")
	return report, nil
}

func advice(err error) string {
	if hint := logical.HintOf(err); hint != "" {
		return hint
	}
	return "look at the remote's log"
}
