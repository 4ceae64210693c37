//! What to tell the programs people already have: settings that can be pasted, and three commands to try.

use super::layout::Layout;

/// Three commands that show the point: written here, read there.
pub(crate) fn three_commands(layout: &Layout) -> String {
    let endpoint = |number: usize| {
        layout
            .sites
            .get(number)
            .or(layout.sites.last())
            .map_or_else(String::new, |site| site.endpoint.clone())
    };
    format!(
        "  export AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={} AWS_DEFAULT_REGION=us-east-1\n\
         \x20 aws --endpoint-url {first} s3 mb s3://hello\n\
         \x20 aws --endpoint-url {first} s3 cp README.md s3://hello/\n\
         \x20 aws --endpoint-url {second} s3 cp s3://hello/README.md -",
        layout.access_key,
        layout.secret_key,
        first = endpoint(0),
        second = endpoint(1),
    )
}

/// Settings for aws, boto3, rclone, s5cmd and DuckDB.
pub(crate) fn clients(layout: &Layout) -> String {
    let (key, secret) = (&layout.access_key, &layout.secret_key);
    let endpoint = layout.sites.first().map_or("", |site| site.endpoint.as_str());
    let host = endpoint.trim_start_matches("http://");
    format!(
        "aws      [default]                                  # ~/.aws/credentials, ~/.aws/config\n\
         \x20        aws_access_key_id = {key}\n\
         \x20        aws_secret_access_key = {secret}\n\
         \x20        region = us-east-1\n\
         \x20        endpoint_url = {endpoint}\n\
         \x20        s3 =                                       # awscli 1 signs links the old way otherwise\n\
         \x20            signature_version = s3v4\n\
         boto3    boto3.client(\"s3\", endpoint_url=\"{endpoint}\", region_name=\"us-east-1\",\n\
         \x20            aws_access_key_id=\"{key}\", aws_secret_access_key=\"{secret}\",\n\
         \x20            config=botocore.config.Config(signature_version=\"s3v4\"))  # for presigned links\n\
         rclone   rclone config create skerry s3 provider=Other endpoint={endpoint} \\\n\
         \x20            access_key_id={key} secret_access_key={secret} force_path_style=true\n\
         s5cmd    AWS_ACCESS_KEY_ID={key} AWS_SECRET_ACCESS_KEY={secret} AWS_REGION=us-east-1 \\\n\
         \x20            s5cmd --endpoint-url {endpoint} ls\n\
         DuckDB   CREATE SECRET skerry (TYPE s3, KEY_ID '{key}', SECRET '{secret}', REGION 'us-east-1',\n\
         \x20            ENDPOINT '{host}', URL_STYLE 'path', USE_SSL false);"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::layout::Site;

    #[test]
    fn settings_hold_what_a_client_needs() {
        let mut layout = Layout::new("x".as_ref());
        (layout.access_key, layout.secret_key) = ("AKEY".into(), "s3cr3t".into());
        for number in [0, 1] {
            layout.sites.push(Site {
                name: format!("site-{}", number + 1),
                endpoint: format!("http://127.0.0.1:{}", 7600 + number),
            });
        }
        let text = clients(&layout);
        for name in ["aws ", "boto3 ", "rclone ", "s5cmd ", "DuckDB ", "ENDPOINT '127.0.0.1:7600'"] {
            assert!(text.contains(name), "{name}");
        }
        assert_eq!(text.matches("s3cr3t").count(), 5, "{text}");
        assert!(
            three_commands(&layout)
                .contains("--endpoint-url http://127.0.0.1:7601 s3 cp s3://hello/README.md -")
        );
    }
}
