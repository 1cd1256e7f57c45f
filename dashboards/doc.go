// Package dashboards holds what an operator imports elsewhere: tailrace.json for Grafana, and alerts.yaml for Prometheus. It has
// no code but its tests, which see to it that both ask only for metrics that exist.
package dashboards
