package influx

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-cdc/tailrace/logical/deadletter"
)

// TestEverySettingArrives fails when the target has a setting that cannot be given here, or that is lost
// on the way.
func TestEverySettingArrives(t *testing.T) {
	t.Parallel()
	config := Config{DeadLetters: &deadletter.Store{}, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)}
	given := reflect.ValueOf(&config).Elem()
	for i := range given.NumField() {
		switch f := given.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int:
			f.SetInt(7)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"x"}))
		default:
			if f.IsNil() {
				t.Errorf("%s is not given", given.Type().Field(i).Name)
			}
		}
	}
	inner, err := config.inner()
	if err != nil {
		t.Fatal(err)
	}
	taken := reflect.ValueOf(inner)
	for i := range taken.NumField() {
		if f := taken.Type().Field(i); f.IsExported() && taken.Field(i).IsZero() {
			t.Errorf("%s does not arrive", f.Name)
		}
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for what, config := range map[string]Config{
		"no URL":        {Bucket: "b"},
		"no bucket":     {URL: "http://localhost:1"},
		"no kind":       {URL: "http://localhost:1", Bucket: "b", Kind: "4"},
		"no such hosts": {URL: "http://localhost:1", Bucket: "b", AllowHosts: []string{"http://x"}},
	} {
		if target, err := Open(config); err == nil || target != nil {
			t.Errorf("%s: got %v and %v", what, target, err)
		}
	}
}

func TestMetricsEndWithTheirTarget(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	config := Config{URL: "http://localhost:1", Bucket: "b", Name: "one", Metrics: registry}
	for range 2 {
		target, err := Open(config)
		if err != nil {
			t.Fatal(err)
		}
		if families, err := registry.Gather(); err != nil || len(families) == 0 {
			t.Errorf("%d metrics are shown, error %v", len(families), err)
		}
		if other, err := Open(config); err == nil || other != nil {
			t.Error("two targets of one name are shown as one")
		}
		if err := target.Close(); err != nil {
			t.Error(err)
		}
		if families, err := registry.Gather(); err != nil || len(families) != 0 {
			t.Errorf("%d metrics of a closed target are shown, error %v", len(families), err)
		}
	}
}
