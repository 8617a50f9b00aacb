// Uses the client that oapi-codegen makes.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"clients/oapi-codegen/linkledger"
)

// A destination that the URL standard allows, and RFC 3986 does not.
const page = "https://example.com/a|b?c=[d]"

// Ends the program unless the condition is true.
func check(isTrue bool, seen ...any) {
	if !isTrue {
		log.Panicf("%+v", seen)
	}
}

func must[T any](value T, err error) T {
	check(err == nil, value, err)
	return value
}

func pointer[T any](value T) *T {
	return &value
}

func main() {
	authorized := linkledger.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("API_KEY"))
		return nil
	})
	api := must(linkledger.NewClientWithResponses(os.Getenv("API_URL"), authorized))
	ctx := context.Background()
	run := uuid.NewString()
	slug, tag := "Codegen-"+run[:13], "codegen-"+run

	// Create; a retry creates nothing.
	expiry := time.Date(2099, 12, 31, 0, 0, 0, 0, time.UTC)
	tags := &[]string{tag}
	wanted := linkledger.LinkCreate{
		DestinationUrl: page, Slug: &slug, Title: pointer("Größe"), Tags: tags, ExpiresAt: &expiry,
	}
	create := func(key string) *linkledger.CreateLinkResponse {
		return must(api.CreateLinkWithResponse(ctx, &linkledger.CreateLinkParams{IdempotencyKey: key}, wanted))
	}
	answer := create(run)
	created := answer.JSON201
	check(created != nil, string(answer.Body))
	check(strings.HasSuffix(created.ShortUrl, slug) && created.DestinationUrl == page, created)
	check(created.ExpiresAt.Equal(expiry) && created.CreditsCharged == 1, created)
	check(create(run).JSON201.Id == created.Id, "a retry makes another link")

	// A refusal is typed.
	refused := create(uuid.NewString()).ApplicationproblemJSON409
	check(refused != nil && refused.Code == "slug_taken" && refused.Status == 409, refused)

	// Batch: one link and one refusal; a dry run has a link without id.
	item := func(slug *string) linkledger.BatchItem {
		return linkledger.BatchItem{IdempotencyKey: uuid.New(), DestinationUrl: page, Tags: tags, Slug: slug}
	}
	items := []linkledger.BatchItem{item(nil), item(&slug)}
	batch := must(api.CreateLinksWithResponse(ctx, linkledger.LinkBatch{Items: items}))
	check(batch.JSON207 != nil && batch.JSON207.CreditsCharged == 1, string(batch.Body))
	second, taken := batch.JSON207.Items[0], batch.JSON207.Items[1]
	check(second.Link.Id != nil && second.Problem == nil, second)
	check(taken.Link == nil && taken.Problem.Code == "slug_taken", taken)
	rehearsal := linkledger.LinkBatch{Mode: pointer(linkledger.DryRun), Items: []linkledger.BatchItem{item(nil)}}
	rehearsed := must(api.CreateLinksWithResponse(ctx, rehearsal)).JSON200.Items[0].Link
	check(rehearsed.Id == nil && rehearsed.DestinationUrl == page, rehearsed)

	// List two pages, newest first.
	list := func(cursor *string) *linkledger.LinkPage {
		token := batch.HTTPResponse.Header.Get("Consistency-Token")
		params := linkledger.ListLinksParams{Limit: pointer(1), Tag: &tag, Cursor: cursor, ConsistencyToken: &token}
		return must(api.ListLinksWithResponse(ctx, &params)).JSON200
	}
	firstPage := list(nil)
	check(firstPage.HasMore && firstPage.Items[0].Id == *second.Link.Id, firstPage)
	lastPage := list(firstPage.NextCursor)
	check(!lastPage.HasMore && lastPage.NextCursor == nil && lastPage.Items[0].Id == created.Id, lastPage)

	// Read and change. A null that removes a detail needs a body of one's own.
	read := must(api.GetLinkWithResponse(ctx, created.Id, nil))
	check(*read.JSON200.Title == "Größe" && (*read.JSON200.Tags)[0] == tag, string(read.Body))
	match := &linkledger.ChangeLinkParams{IfMatch: pointer(read.HTTPResponse.Header.Get("ETag"))}
	patch := strings.NewReader(`{"title": null, "disabled": true}`)
	changed := must(api.ChangeLinkWithBodyWithResponse(ctx, created.Id, match, "application/merge-patch+json", patch))
	check(changed.JSON200.Title == nil && *changed.JSON200.DisabledBy == "owner", string(changed.Body))
	stale := must(api.ChangeLinkWithResponse(ctx, created.Id, match, linkledger.LinkPatch{Disabled: pointer(false)}))
	check(stale.ApplicationproblemJSON412.Code == "etag_mismatch", string(stale.Body))
	history := must(api.GetLinkHistoryWithResponse(ctx, created.Id, nil)).JSON200.Items
	check(history[len(history)-1].Changes["destination_url"].To == page, history)

	// Clicks.
	hourly := &linkledger.GetLinkClicksParams{Interval: pointer(linkledger.GetLinkClicksParamsIntervalHour)}
	hours := must(api.GetLinkClicksWithResponse(ctx, created.Id, hourly)).JSON200
	check(hours.Totals.Clicks == 0 && hours.Series[0].Visitors == nil, hours)
	berlin := &linkledger.GetClicksParams{Timezone: pointer("Europe/Berlin")}
	days := must(api.GetClicksWithResponse(ctx, berlin)).JSON200.Series
	check(slices.ContainsFunc(days, func(day linkledger.ClickBucket) bool {
		return day.Visitors != nil && *day.Visitors > 0
	}), days)
	countries := must(api.GetTopClicksWithResponse(ctx, nil)).JSON200
	check(countries.Items[0].Value == nil, countries)
	var addresses []string
	for _, link := range must(api.GetTopLinksWithResponse(ctx, nil)).JSON200.Items {
		if link.ShortUrl == nil {
			addresses = append(addresses, "")
		} else {
			addresses = append(addresses, *link.ShortUrl)
		}
	}
	check(slices.Contains(addresses, "") && slices.Contains(addresses, os.Getenv("CLICKED_URL")), addresses)

	deleted := must(api.DeleteLinkWithResponse(ctx, created.Id, nil))
	check(deleted.StatusCode() == 204, string(deleted.Body))
	fmt.Println("oapi-codegen: all answers were read")
}
