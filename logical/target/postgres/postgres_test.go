package postgres

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-cdc/tailrace/internal/target/tally"
)

// TestEverySettingArrives fails when the target has a setting that cannot be given here, or that is lost
// on the way.
func TestEverySettingArrives(t *testing.T) {
	t.Parallel()
	var config Config
	given := reflect.ValueOf(&config).Elem()
	for i := range given.NumField() {
		switch f := given.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(7)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"x"}))
		case reflect.Interface:
			f.Set(reflect.ValueOf(prometheus.NewRegistry()))
		default:
			f.Set(reflect.ValueOf(slog.New(slog.DiscardHandler)))
		}
	}
	inner, err := config.inner(&tally.Tally{})
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
	if target, err := Open(t.Context(), Config{}); err == nil || target != nil {
		t.Errorf("got %v and %v", target, err)
	}
}
