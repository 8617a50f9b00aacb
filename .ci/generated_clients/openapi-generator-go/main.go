// Uses the client that openapi-generator makes for Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"clients/openapi-generator-go/linkledger"
)

// A destination that the URL standard allows, and RFC 3986 does not.
const page = "https://example.com/a|b?c=[d]"

// Ends the program unless the condition is true.
func check(isTrue bool, seen ...any) {
	if !isTrue {
		log.Panicf("%+v", seen)
	}
}

func must[T any](value T, _ *http.Response, err error) T {
	check(err == nil, value, err)
	return value
}

// Returns the problem of a call that must be refused.
func refusal[T any](value T, _ *http.Response, err error) linkledger.Problem {
	var refused *linkledger.GenericOpenAPIError
	check(errors.As(err, &refused), value, err)
	problem, isProblem := refused.Model().(linkledger.Problem)
	check(isProblem, string(refused.Body()))
	return problem
}

func main() {
	configuration := linkledger.NewConfiguration()
	configuration.Servers = linkledger.ServerConfigurations{{URL: os.Getenv("API_URL")}}
	api := linkledger.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), linkledger.ContextAccessToken, os.Getenv("API_KEY"))
	run := uuid.NewString()
	slug, tag := "Go-"+run[:13], "go-"+run

	// Create; a retry creates nothing.
	expiry := time.Date(2099, 12, 31, 0, 0, 0, 0, time.UTC)
	wanted := linkledger.NewLinkCreate(page)
	wanted.SetSlug(slug)
	wanted.SetTitle("Größe")
	wanted.SetTags([]string{tag})
	wanted.SetExpiresAt(expiry)
	create := func(key string) linkledger.ApiCreateLinkRequest {
		return api.LinksAPI.CreateLink(ctx).IdempotencyKey(key).LinkCreate(*wanted)
	}
	created := must(create(run).Execute())
	check(strings.HasSuffix(created.ShortUrl, slug) && created.DestinationUrl == page, created)
	check(created.GetExpiresAt().Equal(expiry) && created.CreditsCharged == 1, created)
	check(must(create(run).Execute()).Id == created.Id, "a retry makes another link")

	// A refusal is typed.
	refused := refusal(create(uuid.NewString()).Execute())
	check(refused.Code == "slug_taken" && refused.Status == 409, refused)

	// Batch: one link and one refusal; a dry run has a link without id.
	item := func() linkledger.BatchItem {
		item := linkledger.NewBatchItem(page, uuid.NewString())
		item.SetTags([]string{tag})
		return *item
	}
	conflicting := item()
	conflicting.SetSlug(slug)
	batch := linkledger.NewLinkBatch([]linkledger.BatchItem{item(), conflicting})
	result, answer, err := api.LinksAPI.CreateLinks(ctx).LinkBatch(*batch).Execute()
	check(err == nil && answer.StatusCode == 207 && result.CreditsCharged == 1, result, err)
	second, taken := result.Items[0], result.Items[1]
	check(second.Link.GetId() != "" && second.Problem == nil, second)
	check(taken.Link == nil && taken.Problem.Code == "slug_taken", taken)
	rehearsal := linkledger.NewLinkBatch([]linkledger.BatchItem{item()})
	rehearsal.SetMode("dry_run")
	rehearsed := must(api.LinksAPI.CreateLinks(ctx).LinkBatch(*rehearsal).Execute()).Items[0].Link
	check(rehearsed.Id == nil && rehearsed.DestinationUrl == page, rehearsed)

	// List two pages, newest first.
	list := api.LinksAPI.ListLinks(ctx).Limit(1).Tag(tag).ConsistencyToken(answer.Header.Get("Consistency-Token"))
	firstPage := must(list.Execute())
	check(firstPage.HasMore && firstPage.Items[0].Id == second.Link.GetId(), firstPage)
	lastPage := must(list.Cursor(*firstPage.NextCursor.Get()).Execute())
	check(!lastPage.HasMore && lastPage.NextCursor.Get() == nil && lastPage.Items[0].Id == created.Id, lastPage)

	// Read and change.
	read, answer, err := api.LinksAPI.GetLink(ctx, created.Id).Execute()
	check(err == nil && read.GetTitle() == "Größe" && read.Tags[0] == tag, read, err)
	change := api.LinksAPI.ChangeLink(ctx, created.Id).IfMatch(answer.Header.Get("ETag"))
	patch := linkledger.NewLinkPatch()
	patch.SetTitleNil()
	patch.SetDisabled(true)
	changed := must(change.LinkPatch(*patch).Execute())
	check(changed.Title == nil && changed.GetDisabledBy() == "owner", changed)
	stale := refusal(change.LinkPatch(*linkledger.NewLinkPatch()).Execute())
	check(stale.Code == "etag_mismatch", stale)
	history := must(api.LinksAPI.GetLinkHistory(ctx, created.Id).Execute()).Items
	check(history[len(history)-1].Changes["destination_url"].To == page, history)

	// Clicks.
	hours := must(api.ClicksAPI.GetLinkClicks(ctx, created.Id).Interval("hour").Execute())
	check(hours.Totals.Clicks == 0 && hours.Series[0].Visitors.Get() == nil, hours)
	days := must(api.ClicksAPI.GetClicks(ctx).Timezone("Europe/Berlin").Execute()).Series
	check(slices.ContainsFunc(days, func(day linkledger.ClickBucket) bool {
		return day.Visitors.IsSet() && day.GetVisitors() > 0
	}), days)
	countries := must(api.ClicksAPI.GetTopClicks(ctx).By("country").Execute())
	check(countries.Items[0].Value.Get() == nil, countries)
	var addresses []string
	for _, link := range must(api.ClicksAPI.GetTopLinks(ctx).Limit(100).Execute()).Items {
		addresses = append(addresses, link.GetShortUrl())
	}
	check(slices.Contains(addresses, "") && slices.Contains(addresses, os.Getenv("CLICKED_URL")), addresses)

	_, err = api.LinksAPI.DeleteLink(ctx, created.Id).Execute()
	check(err == nil, err)
	fmt.Println("openapi-generator, Go: all answers were read")
}
